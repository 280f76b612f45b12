"""Which word each token of a slow tokenizer belongs to, found by counting characters."""

from .failures import Unsupported

CONTINUATION = ("▁", "##")


def _surface_of_unknown(tokenizer, word):
    """What of a word its unknown token stands for: the word without the first occurrence of each known piece.

    As in the reference system, with its known flaw: "1925-1950" as [UNK] - 19 50 gives 2519."""
    for piece in tokenizer.convert_ids_to_tokens(tokenizer.encode(word, add_special_tokens=False)):
        if piece != tokenizer.unk_token:
            word = word.replace(piece, "", 1)
    return word


def _has_unknown(tokenizer, word):
    return tokenizer.unk_token in tokenizer.convert_ids_to_tokens(tokenizer.encode(word, add_special_tokens=False))


def _pieces(tokenizer, ids, words):
    """The tokens' characters: no word-boundary marks, unknown tokens spelled out, None for special tokens."""
    pieces = list(tokenizer.convert_ids_to_tokens(ids))
    for i, piece in enumerate(pieces):
        for mark in CONTINUATION:
            if pieces[i] and pieces[i].startswith(mark):
                pieces[i] = pieces[i][len(mark):]
    unknown = [i for i, piece in enumerate(pieces) if piece == tokenizer.unk_token]
    if unknown:
        affected = [w for w in words if _has_unknown(tokenizer, w)]
        for i, word in zip(unknown, affected):
            pieces[i] = _surface_of_unknown(tokenizer, word)
    special = {
        tokenizer.convert_ids_to_tokens(tokenizer.convert_tokens_to_ids(token))
        for token in tokenizer.special_tokens_map.values()
        if isinstance(token, str)
    }
    return [None if piece in special else piece for piece in pieces]


def slow_word_ids(tokenizer, ids, words, cut):
    """Per token the index of its word, None for special and empty tokens.

    All characters of the words and of the tokens are counted off against each other; a token belongs to the word of its
    first character. Raises Unsupported when the counts differ, unless the row was cut: then the tokens' characters
    must be those of the first words."""
    pieces = _pieces(tokenizer, ids, words)
    owner = [w for w, word in enumerate(words) for _ in word]
    total = sum(len(piece) for piece in pieces if piece is not None)
    if total != len(owner) and not (cut and total < len(owner)):
        raise Unsupported(
            "the tokens could not be aligned with the words: a slow tokenizer that changes the characters (neither WordPiece nor "
            "SentencePiece, or one that folds or drops some)"
        )
    out, at = [], 0
    for piece in pieces:
        out.append(owner[at] if piece else None)
        at += len(piece or "")
    return out
