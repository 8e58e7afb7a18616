#!/bin/sh
# Lay out /usr/local/Ascend and /etc/Ascend as the vendor's installers do: install_toolkit.sh LIBRARIES SOURCE ROOT
# Environment: CANN_VERSION (8.3.rc1), CHIP (910b).
set -eu

libraries=$1
source=$2
root=$3

release=$(printf '%s' "${CANN_VERSION:?}" | tr '[:lower:]' '[:upper:]') # folders say 8.3.RC1, image tags 8.3.rc1
machine=$(uname -m)
ascend=$root/usr/local/Ascend
toolkit=$ascend/ascend-toolkit/$release
atb=$ascend/nnal/atb/$release

# Every path the environment names exists, so that a check for dangling entries tells ours from the vendor's.
make_folders() {
    mkdir -p "$toolkit/$machine-linux/lib64/plugin/opskernel" "$toolkit/$machine-linux/lib64/plugin/nnengine" \
        "$toolkit/$machine-linux/devlib" "$toolkit/bin" "$toolkit/compiler/ccec_compiler/bin" \
        "$toolkit/tools/ccec_compiler/bin" "$toolkit/tools/aml/lib64/plugin" "$toolkit/runtime" "$toolkit/toolkit" \
        "$toolkit/opp/built-in/op_impl/ai_core/tbe/op_tiling" "$toolkit/python/site-packages"
    ln -s "$release" "$ascend/ascend-toolkit/latest"
    ln -s "$machine-linux/lib64" "$toolkit/lib64"
    ln -s "$machine-linux/devlib" "$toolkit/devlib"
    for abi in 0 1; do
        mkdir -p "$atb/atb/cxx_abi_$abi/lib" "$atb/atb/cxx_abi_$abi/bin" "$atb/atb/cxx_abi_$abi/examples" \
            "$atb/atb/cxx_abi_$abi/tests/atbopstest"
    done
    ln -s "$release" "$ascend/nnal/atb/latest"
}

install_libraries() {
    cp "$libraries"/lib64/*.so "$toolkit/lib64/"
    # For build steps without a driver. Not on any search path: at run time it would hide the real driver's library.
    cp "$libraries"/devlib/*.so "$toolkit/devlib/"
    mv "$toolkit/lib64/libatb.so" "$atb/atb/cxx_abi_0/lib/"
    cp "$atb/atb/cxx_abi_0/lib/libatb.so" "$atb/atb/cxx_abi_1/lib/"
}

install_python() {
    cp -R "$source"/python/. "$toolkit/python/site-packages/"
    find "$toolkit/python" -name __pycache__ -prune -exec rm -rf {} +
}

version_info() {
    printf 'Version=%s\nversion_dir=%s\nsimulated=yes\n' "$release" "$release"
}

write_versions() {
    for part in compiler runtime opp toolkit; do
        version_info >"$toolkit/$part/version.info"
    done
    version_info >"$toolkit/version.cfg"
    version_info >"$atb/version.info"
    {
        echo "package_name=Ascend-cann-toolkit"
        echo "version=$release"
        echo "innerversion=simulated"
        echo "compatible_version=simulated"
        echo "arch=$machine"
        echo "os=linux"
        echo "path=/usr/local/Ascend/ascend-toolkit/$release/$machine-linux"
    } >"$toolkit/$machine-linux/ascend_toolkit_install.info"
    mkdir -p "$root/etc/Ascend"
    {
        echo "Install_Path_Param=/usr/local/Ascend"
        echo "Toolkit_Version=$release"
        echo "Kernels=${CHIP:?}"
        echo "simulated=yes"
    } >"$root/etc/Ascend/ascend_cann_install.info"
}

install_environment() {
    install -m 0755 "$source/toolkit/set_env.sh" "$ascend/ascend-toolkit/set_env.sh"
    install -m 0755 "$source/toolkit/atb_set_env.sh" "$ascend/nnal/atb/set_env.sh"
    install -m 0755 "$source/toolkit/cannsim-banner" "$toolkit/bin/cannsim-banner"
}

make_folders
install_libraries
install_python
write_versions
install_environment
