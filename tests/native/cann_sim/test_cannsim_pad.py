"""aclnnConstantPadNd, which hccl's all_gather needs."""

import ctypes

import pytest
from stand_in import Libraries, StandIn

INT32_ACL = 3
NOT_SUPPORTED = 200001


def longs(*values: int) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


def tensor(
    libraries: Libraries, data: ctypes.Array[ctypes.c_int32], shape: tuple[int, ...], strides: tuple[int, ...]
) -> ctypes.c_void_p:
    create = libraries.operators.aclCreateTensor
    create.restype = ctypes.c_void_p
    made = create(
        longs(*shape), ctypes.c_uint64(len(shape)), INT32_ACL, longs(*strides), ctypes.c_int64(0), 2,
        longs(*shape), ctypes.c_uint64(len(shape)), data,
    )  # fmt: skip
    return ctypes.c_void_p(made)


def pad(
    libraries: Libraries, amounts: tuple[int, ...], target_shape: tuple[int, int], value: int = 0
) -> tuple[int, list[int]]:
    """Pad the 2 x 2 matrix 1 2 / 3 4, stored column by column."""
    operators = libraries.operators
    operators.aclCreateIntArray.restype = operators.aclCreateScalar.restype = ctypes.c_void_p
    source = (ctypes.c_int32 * 4)(1, 3, 2, 4)
    size = target_shape[0] * target_shape[1]
    target = (ctypes.c_int32 * size)(*[9] * size)
    arguments = [
        tensor(libraries, source, (2, 2), (1, 2)),
        ctypes.c_void_p(operators.aclCreateIntArray(longs(*amounts), ctypes.c_uint64(len(amounts)))),
        ctypes.c_void_p(operators.aclCreateScalar(ctypes.byref(ctypes.c_int32(value)), INT32_ACL)),
        tensor(libraries, target, target_shape, (target_shape[1], 1)),
    ]
    workspace, executor = ctypes.c_uint64(), ctypes.c_void_p()
    code = operators.aclnnConstantPadNdGetWorkspaceSize(*arguments, ctypes.byref(workspace), ctypes.byref(executor))
    if code == 0:
        code = operators.aclnnConstantPadNd(None, ctypes.c_uint64(0), executor, None)
    return code, list(target)


@pytest.mark.parametrize(
    ("amounts", "shape", "expected"),
    [
        ((0, 1), (2, 3), [1, 2, 0, 3, 4, 0]),
        ((1, 0), (2, 3), [0, 1, 2, 0, 3, 4]),
        ((0, 0, 1, 0), (3, 2), [0, 0, 1, 2, 3, 4]),
        ((), (2, 2), [1, 2, 3, 4]),
    ],
)
def test_pads_with_zeros(
    stand_in: StandIn, amounts: tuple[int, ...], shape: tuple[int, int], expected: list[int]
) -> None:
    assert stand_in.run(lambda libraries: pad(libraries, amounts, shape)) == (0, expected)


@pytest.mark.parametrize(
    ("amounts", "shape", "value"), [((0, 1), (2, 3), 5), ((0, -1), (2, 1), 0), ((0, 1), (2, 4), 0)]
)
def test_refuses_the_rest(stand_in: StandIn, amounts: tuple[int, ...], shape: tuple[int, int], value: int) -> None:
    def use(libraries: Libraries) -> tuple[int, str]:
        return pad(libraries, amounts, shape, value)[0], libraries.error()

    code, text = stand_in.run(use)
    assert code == NOT_SUPPORTED
    assert "simulated" in text
    assert "aclnnConstantPadNd" in text
