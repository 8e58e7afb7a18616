"""Every symbol has one owner, decided by its name."""

import pytest
from stubgen import naming
from stubgen.naming import Result


@pytest.mark.parametrize(
    ("mangled", "scope"),
    [
        ("_ZN2ge7Session8AddGraphEjRKNS_5GraphE", "ge::Session"),
        ("_ZNK2ge5Graph11GetAllNodesEv", "ge::Graph"),
        ("_ZN2ge12GEInitializeERKSt3mapIiiE", "ge::GEInitialize"),
        ("_ZN3atb15CreateOperationINS_5infer9RopeParamEEEiRKT_PPNS_9OperationE", "atb::CreateOperation"),
        ("_ZTVN3c105ErrorE", "c10::Error"),
        ("_ZTIN5torch3jit6ModuleE", "torch::jit"),
        ("_ZGVN2at6Tensor1xE", "at::Tensor"),
        ("_Z16THPVariable_WrapRKN2at10TensorBaseE", "THPVariable_Wrap"),
        ("_ZNSt6vectorIiSaIiEED1Ev", ""),
        ("_ZdlPv", ""),
        ("aclrtMalloc", ""),
    ],
)
def test_scope_of_a_mangled_name(mangled: str, scope: str) -> None:
    assert naming.owner(mangled) == scope


@pytest.mark.parametrize(
    ("name", "soname", "result"),
    [
        ("aclrtMalloc", "libascendcl.so", Result.ERROR),
        ("aclCreateTensorDesc", "libascendcl.so", Result.NULL),
        ("aclopCreateAttr", "libascendcl.so", Result.NULL),
        ("aclGetTensorDescType", "libascendcl.so", Result.UNDEFINED),
        ("aclGetTensorDescNumDims", "libascendcl.so", Result.NOTHING),
        ("aclopCompileAndExecute", "libacl_op_compiler.so", Result.ERROR),
        ("aclGetCompileoptSize", "libacl_op_compiler.so", Result.NOTHING),
        ("acltdtCreateDataset", "libacl_tdt_channel.so", Result.NULL),
        ("acltdtGetDatasetSize", "libacl_tdt_channel.so", Result.NOTHING),
        ("acltdtReceiveTensor", "libacl_tdt_channel.so", Result.ERROR),
        ("aclnnAdd", "libopapi.so", Result.ERROR),
        ("HcclAllReduce", "libhccl.so", Result.ERROR),
        ("rtSetDevice", "libascendcl.so", Result.ERROR),
        ("strcpy_s", "libc_sec.so", Result.ERROR),
        ("_ZN2ge7SessionC1Ev", "libge_runner.so", Result.THROW),
        ("_ZN2ge10TensorDescC1Ev", "libgraph.so", Result.THROW),
        ("_ZN3atb13CreateContextEPPNS_7ContextE", "libatb.so", Result.THROW),
    ],
)
def test_cann_names(name: str, soname: str, result: Result) -> None:
    rule = naming.cann_rule(name)
    assert rule is not None
    assert (rule.soname, rule.result) == (soname, result)


@pytest.mark.parametrize(
    "name",
    ["malloc", "access", "accept", "acl", "rtm_begin", "return_s", "_ZN2at6TensorC1Ev", "_ZN6google8protobufE",
     "geteuid", "_ZN6atbash3fooEv", "_ZN3getEv", "PyErr_SetString", "Hccl"],
)  # fmt: skip
def test_not_cann(name: str) -> None:
    assert naming.cann_rule(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_ZN3c105ErrorC1Ev", True),
        ("_ZN4c10d5StoreD1Ev", True),
        ("_ZNK2at10TensorBase14const_data_ptrIaLi0EEEPKT_v", True),
        ("_ZN8pybind116detail11type_casterIN2at6TensorEvE4loadENS_6handleEb", True),
        ("_Z16THPVariable_WrapRKN2at10TensorBaseE", True),
        ("THPVariableClass", True),
        ("aoti_torch_device_type_cpu", True),
        ("_ZN2ge7SessionC1Ev", False),
        ("_ZN6attack3runEv", False),
        ("torch", False),
    ],
)
def test_torch_names(name: str, expected: bool) -> None:
    assert naming.is_torch(name) is expected


def test_pythons_names() -> None:
    assert naming.is_python("PyErr_SetString")
    assert naming.is_python("_Py_NoneStruct")
    assert not naming.is_python("Pythagoras")


@pytest.mark.parametrize(
    ("soname", "known"),
    [
        ("libc.so.6", True),
        ("libstdc++.so.6", True),
        ("ld-linux-x86-64.so.2", True),
        ("ld-linux-aarch64.so.1", True),
        ("libcuda.so.1", False),
        ("libmystery.so", False),
    ],
)
def test_system_sonames(soname: str, known: bool) -> None:
    assert bool(naming.SYSTEM_SONAMES.match(soname)) is known
