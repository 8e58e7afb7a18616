"""Are the models there, whole, and of a kind that RLinf can put together?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlinf_npu.recap.check.finding import Finding, error, ok, warning
from rlinf_npu.recap.check.safetensors_file import read_table
from rlinf_npu.recap.config import Config

# Layers of the value experts that RLinf offers: the Gemma 3 model needs at least as many.
EXPERT_LAYERS = {"gemma_1m": 4}
HEAD_DIM = 256
IMAGE_SIZE = 224
PALIGEMMA = Path("big_vision/paligemma_tokenizer.model")
STATISTICS = ("mean", "std", "q01", "q99")


def check_models(config: Config) -> list[Iterator[Finding]]:
    """Return the looks at SigLIP, Gemma 3, the tokenizer, the policy and openpi's tokenizer, each for itself."""
    return [
        check_siglip(config.models.siglip),
        check_gemma(config.models.gemma3, config.value.expert),
        check_tokenizer(config.tokenizer, own=config.models.tokenizer is not None),
        check_policy(config.models.policy),
        check_openpi(config.models.openpi_home),
    ]


def weights(folder: Path) -> Iterator[Finding]:
    """Check a model's safetensors files against its index."""
    index = folder / "model.safetensors.index.json"
    names = {"model.safetensors"}
    if index.is_file():
        try:
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            yield error(index, "not an index of weights", "download this file again")
            return
    parameters = 0
    for name in sorted(names):
        path = folder / name
        if not path.is_file():
            yield error(path, "missing weights", "download the model again, completely")
            continue
        try:
            parameters += read_table(path).parameters
        except ValueError as problem:
            yield error(path, str(problem), "download this file again")
    if parameters:
        yield ok(folder, f"{parameters / 1e6:,.1f} M parameters in {len(names)} file(s)")


def read_config(folder: Path, what: str) -> tuple[dict[str, Any], list[Finding]]:
    """Return config.json; when there is none, say what is missing."""
    path = folder / "config.json"
    if not folder.is_dir():
        return {}, [error(folder, f"{what} is missing", "download it, or correct the path in recap.yaml")]
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, [error(path, f"{what} has no config.json", "download the model again, completely")]
    except ValueError:
        return {}, [error(path, "not JSON", "download this file again")]
    if not isinstance(content, dict):
        return {}, [error(path, "not a model's configuration", "download this file again")]
    return content, []


def check_kind(folder: Path, content: dict[str, Any], wanted: str) -> Iterator[Finding]:
    """Another kind of model may have all that is looked at below, and still not fit."""
    kind = str(content.get("model_type", wanted))
    if wanted not in kind:
        yield error(folder, f"a {kind} model", f"a {wanted} model is needed here: correct the path in recap.yaml")


def check_siglip(folder: Path) -> Iterator[Finding]:
    """224 px; whole weights."""
    content, missing = read_config(folder, "the SigLIP vision encoder")
    yield from missing
    if missing:
        return
    yield from check_kind(folder, content, "siglip")
    size = content.get("vision_config", content).get("image_size", IMAGE_SIZE)
    if size != IMAGE_SIZE:
        yield error(
            folder, f"SigLIP for {size} px", f"the value model feeds {IMAGE_SIZE} px: take a -{IMAGE_SIZE} variant"
        )
    yield from weights(folder)


def check_gemma(folder: Path, expert: str) -> Iterator[Finding]:
    """Shapes that fit the value expert; whole weights."""
    content, missing = read_config(folder, "the Gemma 3 language model")
    yield from missing
    if missing:
        return
    yield from check_kind(folder, content, "gemma3")
    text = content.get("text_config", content)
    wanted = {"head_dim": HEAD_DIM, "num_key_value_heads": 1}
    for key, value in wanted.items():
        if text.get(key) != value:
            yield error(folder, f"{key} is {text.get(key)}", f"the value model needs {value}: take gemma-3-270m")
    layers = EXPERT_LAYERS.get(expert, 0)
    if text.get("num_hidden_layers", 0) < layers:
        yield error(folder, f"{text.get('num_hidden_layers')} layers", f"value expert {expert} needs at least {layers}")
    yield from weights(folder)


def check_tokenizer(folder: Path, own: bool = True) -> Iterator[Finding]:
    """Loadable, with padding id 0, as RLinf pads with 0. A Gemma folder that is missing is named by `check_gemma`."""
    if not own and not folder.is_dir():
        return
    path = folder / "tokenizer.json"
    if not path.is_file():
        if (folder / "tokenizer.model").is_file():
            yield ok(folder, "tokenizer.model")
        else:
            yield error(folder, "no tokenizer.json", "set models.tokenizer, or download the tokenizer's files")
        return
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
    except ImportError:
        yield ok(path, "there (the package tokenizers is not installed, so it was not loaded)")
        return
    except Exception as problem:  # the Rust part raises bare Exception
        yield error(path, f"cannot be loaded: {problem}", "download this file again")
        return
    if tokenizer.token_to_id("<pad>") not in (0, None):
        yield error(path, f"padding id {tokenizer.token_to_id('<pad>')}", "RLinf pads with 0: take a Gemma tokenizer")
    else:
        yield ok(path, f"{tokenizer.get_vocab_size()} tokens")


def check_policy(folder: Path) -> Iterator[Finding]:
    """Weights (safetensors, or a checkpoint of step 4) and norm_stats."""
    if not folder.is_dir():
        yield error(folder, "the pi0.5 policy is missing", "download it, or correct models.policy in recap.yaml")
        return
    if saved_weights(folder):
        yield ok(folder, "checkpoint of an earlier run")
    else:
        yield from weights(folder)
    yield from check_norm_stats(folder)


def saved_weights(folder: Path) -> Path | None:
    """Return the whole weights in a checkpoint of step 4."""
    found = (folder / "model_state_dict/full_weights.pt", folder / "actor/model_state_dict/full_weights.pt")
    return next((path for path in found if path.is_file()), None)


def check_norm_stats(folder: Path) -> Iterator[Finding]:
    """state and actions with mean, std and quantiles."""
    files = sorted(folder.glob("**/norm_stats.json"))
    where = "physical-intelligence/libero/norm_stats.json"
    if not files:
        yield error(
            folder / where,
            "no norm_stats.json",
            "step 4 needs it: compute it with openpi, or copy it from the base model",
        )
        return
    for path in files:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            stats = content.get("norm_stats", content)
            lacking = [f"{part}.{key}" for part in ("state", "actions") for key in STATISTICS if key not in stats[part]]
        except (ValueError, KeyError, TypeError) as problem:
            yield error(path, f"not norm_stats: {problem}", "compute it again with openpi")
            continue
        if lacking:
            yield error(
                path, f"lacks {', '.join(lacking)}", "compute it again with openpi (pi0.5 normalises by quantiles)"
            )
        else:
            yield ok(path, "state and actions")


def check_openpi(home: Path | None) -> Iterator[Finding]:
    """The PaliGemma tokenizer, which openpi would otherwise fetch from a bucket."""
    import os

    root = home or (Path(os.environ["OPENPI_DATA_HOME"]) if os.environ.get("OPENPI_DATA_HOME") else None)
    fix = f"put {PALIGEMMA} into a folder and name it in models.openpi_home or OPENPI_DATA_HOME"
    if root is None:
        yield warning("models.openpi_home", "not set: openpi downloads the PaliGemma tokenizer in step 4", fix)
    elif not (root / PALIGEMMA).is_file():
        yield error(root / PALIGEMMA, "missing", fix)
    else:
        yield ok(root / PALIGEMMA, "there")
