"""From a snapshot to a model with a head, and its tokenizer: loading and the fix-ups that odd models need."""

import importlib.util
import json
import os
import sys
import types
import warnings

from . import weights
from .failures import BadInput, Unsupported

# The heads' classes in transformers.
AUTO = {
    "token-classification": "AutoModelForTokenClassification",
    "sequence-classification": "AutoModelForSequenceClassification",
    "speed": "AutoModelForSequenceClassification",
    "question-answering": "AutoModelForQuestionAnswering",
}
XMOD_LANGUAGES = {"da": "da_DK", "sv": "sv_SE", "nb": "no_XX", "nn": "no_XX", "no": "no_XX"}
# Class names (of the model with its head) whose tokenizer wants a space before the first word.
PREFIX_SPACE = ("Roberta", "GPT", "Deberta")

# Longest inputs that tokenizer classes declared for their published checkpoints (transformers up to 4.39 had them as
# `max_model_input_sizes`; the smallest of a class bounds every model with that tokenizer class, published or not).
CLASS_MAX_LENGTH = {
    "AlbertTokenizer": 512, "BartTokenizer": 1024, "BarthezTokenizer": 1024, "BartphoTokenizer": 1024, "BertGenerationTokenizer": 512,
    "BertJapaneseTokenizer": 512, "BertTokenizer": 512, "BertweetTokenizer": 128, "BigBirdTokenizer": 4096, "BioGptTokenizer": 1024,
    "BlenderbotSmallTokenizer": 512, "BlenderbotTokenizer": 128, "CTRLTokenizer": 256, "CamembertTokenizer": 512, "CanineTokenizer": 2048,
    "CodeGenTokenizer": 2048, "ConvBertTokenizer": 512, "DebertaTokenizer": 512, "DebertaV2Tokenizer": 512, "DistilBertTokenizer": 512,
    "ElectraTokenizer": 512, "ErnieMTokenizer": 514, "EsmTokenizer": 1024, "FNetTokenizer": 512, "FlaubertTokenizer": 512,
    "FunnelTokenizer": 512, "GPT2Tokenizer": 1024, "GPTNeoXTokenizer": 2048, "GPTSw3Tokenizer": 2048, "HerbertTokenizer": 514,
    "LEDTokenizer": 16384, "LlamaTokenizer": 2048, "LongformerTokenizer": 4096, "LukeTokenizer": 512, "M2M100Tokenizer": 1024,
    "MBart50Tokenizer": 1024, "MBartTokenizer": 1024, "MLukeTokenizer": 512, "MPNetTokenizer": 512, "MarianTokenizer": 512,
    "MobileBertTokenizer": 512, "MvpTokenizer": 1024, "NllbTokenizer": 1024, "OpenAIGPTTokenizer": 512, "PLBartTokenizer": 1024,
    "PegasusTokenizer": 512, "PhobertTokenizer": 256, "ProphetNetTokenizer": 512, "RealmTokenizer": 512, "RemBertTokenizer": 256,
    "RoCBertTokenizer": 512, "RoFormerTokenizer": 128, "RobertaTokenizer": 512, "SplinterTokenizer": 512, "SqueezeBertTokenizer": 512,
    "T5Tokenizer": 512, "XGLMTokenizer": 2048, "XLMProphetNetTokenizer": 512, "XLMRobertaTokenizer": 512, "XLMTokenizer": 512,
}


def read_json(path, missing_ok=False):
    try:
        with open(path, encoding="utf-8") as f:
            value = json.load(f)
    except FileNotFoundError:
        if missing_ok:
            return {}
        raise BadInput(f"{os.path.basename(path)} is missing from the model snapshot") from None
    except (OSError, ValueError) as e:
        raise BadInput(f"{os.path.basename(path)} of the model cannot be read: {e}") from e
    if not isinstance(value, dict):
        raise BadInput(f"{os.path.basename(path)} of the model is not a JSON object")
    return value


class _Asleep(types.ModuleType):
    """A package that has not been run yet; the first question that it cannot answer wakes it."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.__class__ = types.ModuleType
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def stay_eager():
    """Leave torch's compiler asleep: nothing is compiled here, and importing it costs seconds and 50 to 150 MB.

    transformers asks it whether it is at work (it is not) and marks functions as not to be compiled (they will not be).
    Anything else, code of a model's repository that does compile, say, gets the real one."""
    import torch

    def mark(fn=None, *_, **__):
        return fn if callable(fn) else lambda f: f

    name = "torch._dynamo"
    if name in sys.modules:
        return
    module = importlib.util.module_from_spec(importlib.util.find_spec(name))
    module.__class__ = _Asleep
    module.is_compiling = lambda: False
    module.disable = module.allow_in_graph = module.assume_constant_result = mark
    sys.modules[name] = torch._dynamo = module


def quiet():
    """Silence the libraries' advice; errors stay."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)


def _needs_remote_code(path, file, known):
    """Whether a JSON file of the snapshot points at code and transformers has no class of its own for it."""
    return bool(read_json(os.path.join(path, file), missing_ok=True).get("auto_map")) and not known


def head_config(spec, head, labels, dropout):
    """The snapshot's config with the head's labels and the wanted dropout in it."""
    import transformers
    from transformers import AutoConfig

    raw = read_json(os.path.join(spec.path, "config.json"))
    known = raw.get("model_type") in transformers.CONFIG_MAPPING
    if not spec.allow_remote_code and _needs_remote_code(spec.path, "config.json", known):
        raise Unsupported(f"model {spec.id} needs code from its own repository, which may not be imported (--allow-remote-code allows it)")
    if not known and not raw.get("auto_map"):
        raise Unsupported(f"model {spec.id}: transformers {transformers.__version__} knows no model type {raw.get('model_type')!r}")
    if head == "question-answering":
        labels = ("START_POSITIONS", "END_POSITIONS")
    elif head == "speed":
        labels = ()
    try:
        config = AutoConfig.from_pretrained(
            spec.path, local_files_only=True, trust_remote_code=spec.allow_remote_code,
            num_labels=len(labels), id2label=dict(enumerate(labels)), label2id={label: i for i, label in enumerate(labels)},
        )
    except OSError as e:
        raise BadInput(f"config.json of {spec.id} cannot be used: {e}") from e
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise BadInput(f"config.json of {spec.id} cannot be used: {type(e).__name__}: {e}") from e
    if config.model_type == "deberta-v2":
        config.pooler_hidden_size = config.hidden_size
    # A single sentence has one label, whatever the snapshot's own head was trained for.
    config.problem_type = None
    if hasattr(config, "reference_compile"):
        config.reference_compile = False  # ModernBERT would compile itself
    set_dropout(config, dropout)
    return config


def set_dropout(config, dropout):
    """Set every dropout of a config; null entries (as classifier_dropout may be) too."""
    if dropout is None:
        return
    for name, value in list(vars(config).items()):
        if "drop" not in name or isinstance(value, (bool, str)):
            continue
        if "layerdrop" in name.replace("_", "") and dropout > 0:
            continue  # leaves out whole layers: not the same thing as dropout
        if value is None or isinstance(value, (int, float)):
            setattr(config, name, dropout)


def set_module_dropout(model, dropout):
    """Set what the config does not reach: dropout modules with a constant of their own."""
    import torch

    if dropout is None:
        return
    for m in model.modules():
        if isinstance(m, torch.nn.modules.dropout._DropoutNd):
            m.p = dropout
        elif isinstance(getattr(m, "drop_prob", None), float):
            m.drop_prob = dropout


def class_name(spec, config, head):
    """Name of the class that build will use. Raises Unsupported when the model has no such head."""
    import transformers
    from transformers.models.auto.auto_factory import _get_model_class

    auto = getattr(transformers, AUTO[head])
    if type(config) in auto._model_mapping:
        return _get_model_class(config, auto._model_mapping).__name__
    remote = (getattr(config, "auto_map", None) or {}).get(AUTO[head])
    if not remote:
        raise Unsupported(f"model {spec.id} ({config.model_type}) has no head for {head}")
    return remote.rsplit(".", 1)[-1]


def build(spec, config, head, state, attention=None):
    """(model with its head, names of its weights that the snapshot does not have).

    state: tensors by name, or None for random weights throughout (fresh models). attention: which of transformers'
    implementations, None for its own choice."""
    import torch
    import transformers
    from transformers.models.auto.auto_factory import _get_model_class

    auto = getattr(transformers, AUTO[head])
    own = type(config) in auto._model_mapping
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if state is None:
                return auto.from_config(config, trust_remote_code=spec.allow_remote_code).float(), set()

            def load(ignore_mismatched_sizes):
                options = {
                    "config": config, "ignore_mismatched_sizes": ignore_mismatched_sizes, "local_files_only": True,
                    "torch_dtype": torch.float32, "output_loading_info": True,
                }
                if attention:
                    options["attn_implementation"] = attention
                if not own:  # code from the repository, which was allowed
                    return auto.from_pretrained(spec.path, trust_remote_code=True, **options)
                # A shallow copy of the state: transformers 4 takes entries out of it.
                return _get_model_class(config, auto._model_mapping).from_pretrained(None, state_dict=dict(state), **options)

            try:
                model, info = load(False)
            except RuntimeError:
                # A head of another size, most likely. Not asked for at once, because transformers 4.4x then draws
                # random weights for the whole model first.
                model, info = load(True)
        except ImportError as e:
            raise Unsupported(f"model {spec.id} needs a Python package that is not installed: {e}") from e
    names = set(model.state_dict())
    missing = set()
    for key in [*info["missing_keys"], *(k[0] if isinstance(k, (tuple, list)) else k for k in info["mismatched_keys"])]:
        # Some versions name them without the base model's prefix.
        missing.update({key, f"{model.base_model_prefix}.{key}"} & names)
    return model.float(), missing


def init_missing(model, missing):
    """Random weights for what the snapshot does not have, drawn from torch's generator in the reference system's order.

    That is transformers 4.36's: every module, children first, of which some weight is missing. Later versions draw for
    the whole model, or for nothing else than the missing tensors, so this does not rely on what they did."""
    import torch

    if not missing:
        return

    def visit(module, prefix):
        for name, child in module.named_children():
            visit(child, f"{prefix}{name}.")
        if not any(prefix + name in missing for name in module.state_dict()):
            return
        own = list(module.named_parameters(recurse=False))
        kept = [(p, p.detach().clone()) for name, p in own if prefix + name not in missing]
        for _, p in own:
            p.__dict__.pop("_is_hf_initialized", None)  # transformers 5 leaves alone what carries this mark
        model._init_weights(module)
        for p, value in kept:
            p.copy_(value)

    with torch.no_grad():
        visit(model, "")


def read_weights(spec):
    return None if spec.fresh else weights.read(spec.path)


def fix_head(model, head, languages, model_id):
    """X-MOD's language, and a second token-type row for question answering."""
    import torch

    if "xmod" in type(model).__name__.lower():
        language = next((XMOD_LANGUAGES[code] for code in languages if code in XMOD_LANGUAGES), None)
        if language is None:
            raise Unsupported(f"model {model_id} (X-MOD) has no adapter for language {', '.join(languages) or 'unknown'}")
        if language not in model.config.languages:
            raise Unsupported(f"model {model_id} (X-MOD) was made without {language}")
        model.set_default_language(language)
    if head == "question-answering":
        for name, module in model.named_modules():
            if name.rsplit(".", 1)[-1] == "token_type_embeddings" and isinstance(module, torch.nn.Embedding):
                if module.weight.shape[0] == 1:
                    second = torch.rand_like(module.weight.data)
                    module.weight.data = torch.cat((module.weight.data, second))
                    module.num_embeddings = 2
                model.config.type_vocab_size = 2
                break


def wants_prefix_space(model_class_name):
    return any(part in model_class_name for part in PREFIX_SPACE)


def load_tokenizer(spec, prefix_space):
    """The snapshot's tokenizer: fast if there can be one, else slow."""
    from transformers import AutoTokenizer

    file = "tokenizer_config.json"
    raw = read_json(os.path.join(spec.path, file), missing_ok=True)
    auto_map = raw.get("auto_map")
    if auto_map and not spec.allow_remote_code and not _tokenizer_class_known(raw.get("tokenizer_class")):
        raise Unsupported(f"the tokenizer of {spec.id} needs code from its own repository, which may not be imported (--allow-remote-code allows it)")
    options = {"local_files_only": True, "trust_remote_code": spec.allow_remote_code, "verbose": False}
    if prefix_space:
        options["add_prefix_space"] = True
    first = None
    for fast in (True, False):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tokenizer = AutoTokenizer.from_pretrained(spec.path, use_fast=fast, **options)
                # Without its vocabulary's file, transformers 5 makes a tokenizer that knows nothing but special tokens.
                if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
                    raise BadInput("its vocabulary is missing or empty")
                return tokenizer
        except Exception as e:  # the Rust side raises bare exceptions; whatever it is, these files gave no tokenizer
            first = first or e
    if isinstance(first, ImportError):
        raise Unsupported(f"the tokenizer of {spec.id} needs a Python package that is not installed: {first}") from first
    raise BadInput(f"the tokenizer of {spec.id} cannot be loaded: {type(first).__name__}: {str(first)[:300]}") from first


def _tokenizer_class_known(name):
    import transformers

    if not name:
        return False
    return any(hasattr(transformers, n) for n in (name, name + "Fast", name.removesuffix("Fast")))


def longest_input(tokenizer, config, wanted, warn):
    """The number of tokens that inputs are cut to: the smallest of what tokenizer, position table and class declare, 512 if none does."""
    candidates = []
    if getattr(tokenizer, "model_max_length", None) and tokenizer.model_max_length < 100_000:
        candidates.append(tokenizer.model_max_length)
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and tokenizer.pad_token_id is not None:
        candidates.append(positions - tokenizer.pad_token_id - 1)
    declared = CLASS_MAX_LENGTH.get(type(tokenizer).__name__.removesuffix("Fast"))
    if declared:
        candidates.append(declared)
    candidates = [c for c in candidates if c >= 1]
    longest = int(min(candidates, default=512))
    if wanted and wanted > longest:
        warn(f"max_length {wanted} is more than the model can take: {longest} it is")
    elif wanted:
        longest = wanted
    return longest


def align(model, tokenizer):
    """Make room for the tokenizer's vocabulary, and give it a padding token."""
    rows = getattr(model.config, "vocab_size", None)
    if isinstance(rows, int):
        wanted = rows
        if rows < tokenizer.vocab_size:
            wanted = tokenizer.vocab_size + 1
        wanted = max(wanted, len(tokenizer)) if wanted < len(tokenizer) else wanted
        if wanted != rows:
            import inspect

            options = {"mean_resizing": False} if "mean_resizing" in inspect.signature(model.resize_token_embeddings).parameters else {}
            model.resize_token_embeddings(wanted, **options)
    pad_like_reference(model.config, tokenizer)


def pads_left(tokenizer):
    return tokenizer.pad_token is None or tokenizer.padding_side == "left"


def pad_like_reference(config, tokenizer):
    """A tokenizer without a padding token pads on the left, with EOS or else SEP."""
    if tokenizer.pad_token is None:
        for token in (tokenizer.eos_token, tokenizer.sep_token):
            if token is not None:
                tokenizer.padding_side = "left"
                tokenizer.pad_token = token
                break
        else:
            raise Unsupported("the tokenizer has no padding token, and neither EOS nor SEP to stand in for it")
        tokenizer.bench_borrowed_pad = True
    if getattr(tokenizer, "bench_borrowed_pad", False):
        config.pad_token_id = tokenizer.pad_token_id
