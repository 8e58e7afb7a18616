"""A device kernel made from a CPU operator."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from cannsim_host_ops import randomness
from cannsim_host_ops.memory import DEVICE_TYPE, host_view, on_device, to_device, to_host

Kernel = Callable[..., Any]


def host_kernel(operator: Any) -> Kernel:
    """Kernel that runs `operator` (an OpOverload) on host views of its arguments and brings the results back."""
    schema = operator._schema
    written = [
        _Slot(index, argument.name)
        for index, argument in enumerate(schema.arguments)
        if argument.alias_info and argument.alias_info.is_write
    ]
    may_resize = bool(written) and schema.overload_name.endswith("out")
    returns_written = (
        bool(written) and len(schema.returns) == len(written) and all(r.alias_info for r in schema.returns)
    )

    random = randomness.draws(operator)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        device = _device_of(args, kwargs)
        originals = [slot.get(args, kwargs) for slot in written]
        host_args, host_kwargs = list(tree_map(to_host, args)), dict(tree_map(to_host, kwargs))
        if may_resize:
            _let_operator_allocate(written, originals, host_args, host_kwargs)
        if random:
            generator = randomness.device_generator([*args, *kwargs.values()], device)
            with randomness.following(generator):
                result = operator(*host_args, **host_kwargs)
        else:
            result = operator(*host_args, **host_kwargs)
        hosts = [slot.get(host_args, host_kwargs) for slot in written]
        if may_resize:
            _resize_outputs(originals, hosts)
        if returns_written:  # in-place and out= forms hand back the very tensors they were given
            return originals[0] if len(originals) == 1 else tuple(originals)
        wants_host = any(isinstance(v, torch.device) and v.type == "cpu" for v in kwargs.values())
        known = {id(host): original for host, original in zip(hosts, originals, strict=True)}
        return tree_map(lambda value: _bring_back(value, device, known, wants_host), result)

    return kernel


class _Slot:
    """Where a written argument stands: by position or by name."""

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name

    def get(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return args[self.index] if self.index < len(args) else kwargs.get(self.name)

    def put(self, args: list[Any], kwargs: dict[str, Any], value: Any) -> None:
        if self.index < len(args):
            args[self.index] = value
        else:
            kwargs[self.name] = value


def _let_operator_allocate(written: list[_Slot], originals: list[Any], args: list[Any], kwargs: dict[str, Any]) -> None:
    """An empty out= tensor may be resized, which a view of foreign memory cannot be: give the operator a fresh one."""
    for slot, original in zip(written, originals, strict=True):
        if isinstance(original, torch.Tensor) and original.numel() == 0:
            slot.put(args, kwargs, torch.empty(0, dtype=original.dtype))


def _resize_outputs(originals: list[Any], hosts: list[Any]) -> None:
    for original, host in zip(originals, hosts, strict=True):
        if not (isinstance(original, torch.Tensor) and isinstance(host, torch.Tensor)):
            continue
        if original.numel() == 0 and host.numel():
            original.resize_(host.size())
            host_view(original).copy_(host)


def _bring_back(value: Any, device: torch.device, known: Mapping[int, Any], wants_host: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if wants_host:
        return value.clone()
    if value.device.type != "cpu":
        return value
    return known[id(value)] if id(value) in known else to_device(value, device)


def _device_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.device:
    """Where the results belong: the first argument that says it, else the current device."""
    for value in _flat([*args, *kwargs.values()]):
        if on_device(value):
            return value.device  # type: ignore[no-any-return]
        if isinstance(value, torch.device) and value.type == DEVICE_TYPE and value.index is not None:
            return value
    return torch.device(DEVICE_TYPE, torch.npu.current_device())


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value
