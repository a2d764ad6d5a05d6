# The front door on a fresh Debian machine. CMake does the building; this says what is needed and in which order.
#
#   make run     install what is missing, build, run the five operators: times, and every bit against the reference
#   make test    install what the tests need, then all of them: gcc, clang, sanitizers, NEON under qemu, Python
#   make build   the library, the command line, the examples
#   make test-gpu   the tests on a CUDA device, compute-sanitizer over a selection; no network needed
#   make bench-gpu  the GPU table, beside a copy and the peers that are installed, to bench/results/
#   make install DESTDIR=... PREFIX=...
#   make clean

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc 2> /dev/null || echo 2)
PREFIX ?= /usr/local
CMAKE = cmake -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DSCANFOLD_WERROR=ON
NEED = ./tests/need.sh
CTEST = ctest --output-on-failure --no-tests=error

.DEFAULT_GOAL := build
.PHONY: build run install test test-gcc test-clang test-asan test-tsan test-neon test-python test-mutation test-gpu bench-gpu clean \
        needs-build needs-test

needs-build:
	@$(NEED) cmake=cmake cc=gcc make=make /usr/include/stdio.h=libc6-dev

build: needs-build
	$(CMAKE) -S . -B build -DSCANFOLD_TESTS=OFF
	cmake --build build -j $(JOBS)

run: build
	./build/examples/five_operators

install: build
	cmake --install build

# ---------------------------------------------------------------------------------------------------------------
# Tests. Each line of tests is one build directory; none disturbs another.
# ---------------------------------------------------------------------------------------------------------------
needs-test: needs-build
	@$(NEED) c++=g++ clang=clang pkg-config=pkg-config python3=python3 nm=binutils \
	        $(if $(filter x86_64,$(shell uname -m)),aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu \
	        /usr/aarch64-linux-gnu/include/stdio.h=libc6-dev-arm64-cross qemu-aarch64=qemu-user)

test: test-gcc test-python test-clang test-asan test-tsan test-neon test-mutation
	@echo "make test: everything passed"

test-gcc: needs-test
	$(CMAKE) -S . -B build/gcc
	cmake --build build/gcc -j $(JOBS)
	cd build/gcc && $(CTEST) -LE cli

# The command line and the library as Python sees them.
test-python: test-gcc
	python=$${PYTHON:-$$(./tests/python.sh numpy pytest)} && \
	        SCANFOLD_LIB=build/gcc/libscanfold.so SCANFOLD_CLI=build/gcc/cli/scanfold SCANFOLD_FUZZ_NPY=build/gcc/cli/fuzz_npy \
	        PYTHONDONTWRITEBYTECODE=1 $$python -m pytest -q -p no:cacheprovider tests

# Another compiler, other code: a thinner selection of the same cases.
test-clang: needs-test
	$(CMAKE) -S . -B build/clang -DCMAKE_C_COMPILER=clang -DSCANFOLD_TEST_EVERY=8 -DSCANFOLD_FUZZ_ITERATIONS=3000
	cmake --build build/clang -j $(JOBS)
	cd build/clang && $(CTEST) -L 'core|package'

# clang compiles sanitized kernels faster than gcc does.
SANITIZED = -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug '-DCMAKE_C_FLAGS_DEBUG=-O1 -g1 -Wno-pass-failed'

test-asan: needs-test
	$(CMAKE) -S . -B build/asan $(SANITIZED) -DSCANFOLD_SANITIZE=address,undefined \
	        -DSCANFOLD_TEST_EVERY=20 -DSCANFOLD_FUZZ_ITERATIONS=2000
	cmake --build build/asan -j $(JOBS)
	cd build/asan && UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS=suppressions=$(CURDIR)/tests/lsan.supp \
	        $(CTEST) -L 'core|threads'

# ThreadSanitizer does not know OpenMP's barriers: the library's own threads then. It also dislikes much address
# randomisation, which setarch turns off where that is allowed.
test-tsan: needs-test
	$(CMAKE) -S . -B build/tsan $(SANITIZED) -DSCANFOLD_SANITIZE=thread -DSCANFOLD_OPENMP=OFF \
	        -DSCANFOLD_TEST_EVERY=200 -DSCANFOLD_FUZZ_ITERATIONS=300
	cmake --build build/tsan -j $(JOBS)
	cd build/tsan && calm=$$(setarch -R true 2> /dev/null && echo setarch -R || true) && $$calm $(CTEST) -L threads && \
	        $$calm $(CTEST) -R '^(fuzz|test_laws)$$'

test-neon: needs-test
ifeq ($(shell uname -m),x86_64)
	$(CMAKE) -S . -B build/neon -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/tests/aarch64.cmake -DSCANFOLD_TEST_EVERY=60 \
	        -DSCANFOLD_FUZZ_ITERATIONS=500 -DSCANFOLD_CLI=OFF
	cmake --build build/neon -j $(JOBS)
	cd build/neon && $(CTEST) -L core
else
	@echo "test-neon: cross-compiling is set up for x86_64 hosts; this one is $(shell uname -m)"
endif

# A wrong association, put into a copy of the sources, must make the order tests fail. Here the totals to the left of a
# tile are added from the highest level down instead of from the lowest up: the same sum, another tree.
test-mutation: needs-test
	FILE=src/cpu/scan.inc.h PATTERN='N(add_entry)(op, \(.*\), k);' \
	        REPLACEMENT='N(add_entry)(op, \1, closed - 1 - k);' ./tests/mutation.sh

test-gpu: needs-build
	$(CMAKE) -S . -B build/gpu -DSCANFOLD_CLI=OFF -DSCANFOLD_EXAMPLES=OFF
	cmake --build build/gpu -j $(JOBS) --target gpu-tests scanfold_shared
	tests/cuda/run_gpu.sh build/gpu

bench-gpu: needs-build
	$(CMAKE) -S . -B build/gpu -DSCANFOLD_CLI=OFF -DSCANFOLD_EXAMPLES=OFF
	cmake --build build/gpu -j $(JOBS) --target scanfold_shared
	python3 bench/gpu.py --library build/gpu/libscanfold.so

clean:
	rm -rf build
