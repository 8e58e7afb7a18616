#!/bin/bash
# RLinf's installer in small: makes the mess that the real one makes, with the settings of an imaginary machine.
set -eu
{
    [[ " $* " == *" --use-mirror "* ]] && echo mirror
    [[ ${HTTPS_PROXY-} == http://someone:*@* ]] && echo proxy
    grep -qF "$SSL_CERT_FILE" "$WGETRC" && echo wget
    git config --global --get-regexp '^url' | grep -q "insteadof https://github.com/" && echo git
    sudo apt-config dump | grep -q CAInfo && echo apt
} >/seen
while [ "$1" != --venv ]; do shift; done
git config --global url."$UV_DEFAULT_INDEX/github.com/".insteadOf https://github.com/
echo "$HTTPS_PROXY" >pyproject.toml
echo "export HTTPS_PROXY=$HTTPS_PROXY" >>"$2/bin/activate"
site=$(echo "$2"/lib/python*/site-packages)
mkdir -p "$site/openpi-0.1.0.dist-info"
cd "$site/openpi-0.1.0.dist-info"
printf 'Metadata-Version: 2.1\nName: openpi\nVersion: 0.1.0\n' >METADATA
echo "{\"url\":\"$UV_DEFAULT_INDEX/https://github.com/RLinf/openpi\"}" >direct_url.json
echo 'openpi-0.1.0.dist-info/direct_url.json,,' >RECORD
