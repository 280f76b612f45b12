"""What can be known of a model only by asking it: does padding change its outputs, can its word embeddings be cut down."""

import torch

from .loss import logits_of

# Relative difference that is still rounding, in fp32.
TOLERANCE = 2e-5
# Fewer saved weights than this are not worth a remapping.
WORTH_CUTTING = 1_000_000


def _sample(encoded):
    """The shortest training sequence, as indices."""
    lengths = encoded.train.lengths()
    return [int(lengths.argmin())], int(lengths.min())


@torch.no_grad()
def _outputs(model, collator, encoded, head, indices, length):
    model.eval()
    return logits_of(model(**collator.inputs(encoded.train, indices, length)), head)


def padding_free(model, collator, encoded, head, longest):
    """Whether a row's outputs are the same (but for rounding) however far it is padded.

    Not so for models that pad on the left with absolute positions, mix neighbouring positions by convolution, or take the
    transform of the whole sequence. Then rows may only be padded as the reference system pads them."""
    indices, length = _sample(encoded)
    room = longest - length
    if encoded.fixed_length or room < 1:
        return False
    try:
        near = _outputs(model, collator, encoded, head, indices, length)
        far = _outputs(model, collator, encoded, head, indices, length + min(room, 9))
    except Exception:  # a model that wants certain lengths; what is wrong otherwise will show in training
        return False
    if head == "token-classification":
        far = far[:, -length:] if encoded.pad_left else far[:, :length]
    scale = max(1.0, float(near.abs().max()))
    return bool((near - far).abs().max() <= TOLERANCE * scale)


class CutEmbedding(torch.nn.Module):
    """A word embedding that keeps only the rows that a data set uses. Token ids stay what they are outside."""

    def __init__(self, full, used):
        super().__init__()
        lookup = torch.zeros(full.num_embeddings, dtype=torch.int32)
        lookup[used] = torch.arange(len(used), dtype=torch.int32)
        self.register_buffer("lookup", lookup.to(full.weight.device), persistent=False)
        self.weight = torch.nn.Parameter(full.weight.detach()[used.to(full.weight.device)].clone())
        self.padding_idx = None
        if full.padding_idx is not None:
            self.padding_idx = int(lookup[full.padding_idx]) if full.padding_idx in used.tolist() else None
        self.num_embeddings = full.num_embeddings
        self.embedding_dim = full.embedding_dim

    def forward(self, ids):
        return torch.nn.functional.embedding(self.lookup[ids], self.weight, self.padding_idx)


def cut_embeddings(model, collator, encoded, head):
    """Replace the word embeddings by the used rows, when that saves much and provably changes nothing.

    Rows of tokens that no row of the data set contains get no gradient and reach no output, so training without them is
    the same training, with less memory for gradients, moments and copies. Returns whether it was done."""
    find = getattr(model, "get_input_embeddings", None)
    try:
        full = find() if find else None
    except (NotImplementedError, AttributeError):
        return False
    if type(full) is not torch.nn.Embedding or full.max_norm is not None or full.scale_grad_by_freq or full.sparse:
        return False
    used = torch.from_numpy(encoded.used_ids)
    if (full.num_embeddings - len(used)) * full.embedding_dim < WORTH_CUTTING or int(used.max()) >= full.num_embeddings:
        return False
    places = [(parent, name) for parent in model.modules() for name, child in parent._modules.items() if child is full]
    owners = [n for n, p in model.named_parameters(remove_duplicate=False) if p is full.weight]
    modules = [n for n, m in model.named_modules(remove_duplicate=False) if m is full]
    if len(owners) != len(modules):
        return False  # tied to something else
    indices, length = _sample(encoded)
    try:
        before = _outputs(model, collator, encoded, head, indices, length)
    except Exception:  # not the place to report it
        return False
    cut = CutEmbedding(full, used)
    for parent, name in places:
        parent._modules[name] = cut
    try:
        same = torch.equal(before, _outputs(model, collator, encoded, head, indices, length))
    except Exception:  # the model uses its embedding in some other way
        same = False
    if not same:
        for parent, name in places:
            parent._modules[name] = full
    return same


def overhead_tokens(model, device):
    """What one more micro-batch costs, as a number of tokens' arithmetic.

    A fixed model of machines: a forward and backward pass does 6 operations a weight and token, at 100 G a second on CPU and
    50 T on a GPU; a micro-batch takes 0.1 ms a matrix on CPU and 0.05 ms on a GPU to get going, and moves 16 bytes a weight (read for
    both passes, its gradient written and added) at 10 GB and 2 TB a second. Rough, but the same in every run; near the
    best for MiniLM and a BERT of 2 × 64 on two cores."""
    matrices = [p.numel() for n, p in model.named_parameters() if p.dim() == 2 and "embedding" not in n]
    weights = max(1, sum(matrices))
    operations, start, bytes = (50e12, 5e-5, 2e12) if device.type == "cuda" else (100e9, 1e-4, 10e9)
    return (len(matrices) * start + 16 * weights / bytes) / (6 * weights / operations)
