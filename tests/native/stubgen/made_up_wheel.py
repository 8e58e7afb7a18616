"""A torch_npu wheel of one library that asks CANN for something of each kind, and the stand-in that stubgen makes."""

import subprocess
from pathlib import Path

import pytest
from stubgen.cli import main

SOURCES = Path(__file__).resolve().parents[3] / "images/cann-sim/src"

WHEEL = """
extern int aclrtSetDevice(int), aclrtMystery(void), HcclMystery(void), acltdtGetDatasetSize(void), strcpy_s(void);
extern void *aclCreateTensorDesc(void);
extern void session(void) __asm__("_ZN2ge7Session8AddGraphEj");
extern void destroy(void) __asm__("_ZN2ge7SessionD1Ev");
extern void tensor(void) __asm__("_ZN2at6TensorC1Ev");
extern void python(void) __asm__("PyErr_Clear");
extern int pthread_create(void), printf(const char *, ...);
extern void maybe(void) __attribute__((weak));
const char *names[] = {"aclnnFoo", "aclnnFooGetWorkspaceSize", "aclnnBar", "not aclnnBaz"};
void all(void) {
    aclrtSetDevice(0); aclrtMystery(); HcclMystery(); acltdtGetDatasetSize(); strcpy_s(); aclCreateTensorDesc();
    session(); destroy(); tensor(); python(); pthread_create(); printf("%s", names[0]);
    if (maybe) maybe();
}
"""


def build_cann(folder: Path) -> None:
    """The stand-in for that wheel, made by the command line; its parts that do something are cann-sim's own."""
    library = folder.parent / f"{folder.name}-wheel/lib/libtorch_npu.so"
    library.parent.mkdir(parents=True)
    command = ["cc", "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), f"-Wl,-soname,{library.name}"]
    subprocess.run(command, input=WHEEL, text=True, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CFLAGS", "-O0 -g0")
        assert main(["cann", str(folder), "--sources", str(SOURCES), "--wheel", str(library.parents[1])]) == 0
