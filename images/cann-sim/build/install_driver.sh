#!/bin/sh
# Lay out what a host's driver package provides to containers: install_driver.sh LIBRARIES SOURCE ROOT
# Environment: DRIVER_VERSION, SOC_NAME. Mount points are those of the vendor's documentation:
#   driver/ -> /usr/local/Ascend/driver   dcmi/ -> /usr/local/dcmi   bin/npu-smi -> /usr/local/bin/npu-smi
#   etc/ascend_install.info -> /etc/ascend_install.info
set -eu

libraries=$1
source=$2
root=$3

mkdir -p "$root/driver/tools" "$root/bin" "$root/etc" "$root/dcmi"
cp -R "$libraries/driver/lib64" "$root/driver/"

{
    echo "Version=${DRIVER_VERSION:?}"
    echo "ascendhal_version=7.35.23"
    echo "aicpu_version=1.0"
    echo "tdt_version=1.0"
    echo "log_version=1.0"
    echo "prof_version=2.0"
    echo "dvppkernels_version=1.1"
    echo "tsfw_version=1.0"
    echo "Innerversion=simulated"
    echo "compatible_version=simulated"
    echo "compatible_version_fw=simulated"
    echo "package_version=$DRIVER_VERSION"
} >"$root/driver/version.info"

# Not in a real driver: tells the simulated tools which chip to show, and people that this is not one.
printf 'simulated=yes\nsoc=%s\n' "${SOC_NAME:?}" >"$root/driver/simulated.info"

{
    echo "UserName=HwHiAiUser"
    echo "UserGroup=HwHiAiUser"
    echo "Driver_Install_Type=simulated"
    echo "Driver_Install_Path_Param=/usr/local/Ascend"
    echo "Driver_Install_For_All=no"
    echo "Driver_Install_Mode=normal"
    echo "Driver_Install_Status=complete"
} >"$root/etc/ascend_install.info"

echo "simulated driver: no DCMI library" >"$root/dcmi/README"
install -m 0755 "$source/driver/npu-smi" "$root/bin/npu-smi"
install -m 0755 "$source/driver/hccn_tool" "$root/driver/tools/hccn_tool"
