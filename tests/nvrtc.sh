#!/bin/sh
# nvrtc.sh TEST_NVRTC: prints what SCANFOLD_NVRTC must be for the program test_nvrtc to find an NVRTC: nothing where it finds one of
# this machine's, else the file of the one that pip has, put into .venv (see python.sh). Everything it does goes to stderr.
set -eu
if [ -n "${SCANFOLD_NVRTC:-}" ]; then
        echo "$SCANFOLD_NVRTC"
        exit 0
fi
# No chip has the number 1: it names its compiler and stops.
if "$1" --arch 1 | grep -q '^NVRTC '; then
        exit 0
fi
python=$("$(dirname "$0")/python.sh" nvidia.cu13)
library=$("$python" -c 'import nvidia.cu13; print(nvidia.cu13.__path__[0])')/lib/libnvrtc.so.13
if [ ! -e "$library" ]; then
        echo "pip's nvidia-cuda-nvrtc has no $library; name an NVRTC in SCANFOLD_NVRTC" >&2
        exit 1
fi
echo "$library"
