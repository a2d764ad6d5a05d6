# The library's sources. Instruction sets are translation units with flags of their own.
set(SCANFOLD_SOURCES
  src/api.c src/request.c src/ranks/cards.c src/ranks/shard.c src/ranks/device.c src/ranks/device_values.c src/ranks/spans.c src/context.c src/backend.c src/again.c
  src/core/status.c src/core/view.c src/core/choose.c src/core/step.c src/core/segments.c src/core/chain.c src/core/program.c src/core/arena.c
  src/expr/graph.c src/expr/ir.c src/expr/infer.c src/expr/infer_views.c src/expr/infer_reduce.c src/expr/derive.c src/expr/text.c src/expr/print.c src/expr/notation.c src/expr/notation_calls.c
  src/expr/rewrite.c src/expr/rewrite_flip.c src/expr/rewrite_view.c src/expr/rewrite_scan.c src/expr/rewrite_fold.c src/expr/rewrite_matmul.c
  src/expr/compile.c src/expr/chains.c src/expr/passes.c src/expr/doubles.c src/expr/as_written.c src/expr/plan.c src/expr/remarks.c src/expr/run.c src/expr/bandwidth.c src/expr/explain.c src/expr/explain_picture.c
  src/ref/ref.c
  src/cpu/cpu.c src/cpu/chain.c src/cpu/across.c src/cpu/kept.c src/cpu/plan.c src/cpu/shape.c src/cpu/direct.c src/cpu/cut.c src/cpu/shared.c src/cpu/carried.c src/cpu/fused_program.c src/cpu/fused_run.c src/cpu/panel.c src/cpu/panel_memory.c src/cpu/positions.c
  src/cpu/segments.c src/cpu/segments_blocks.c src/cpu/segments_chain.c src/cpu/values.c src/cpu/lanes.c src/cpu/pool.c src/cpu/cpus.c src/cpu/quota.c src/cpu/detect.c)

string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" processor)
set(SCANFOLD_ISA_DEFINITIONS "")
if(SCANFOLD_PORTABLE)
  list(APPEND SCANFOLD_SOURCES src/cpu/isa_portable.c src/cpu/reals_portable.c src/cpu/map_portable.c)
  list(APPEND SCANFOLD_ISA_DEFINITIONS SF_HAVE_PORTABLE)
endif()
if(SCANFOLD_PORTABLE_ONLY)
  # No others.
elseif(processor MATCHES "x86_64|amd64")
  if(SCANFOLD_AVX2)
    list(APPEND SCANFOLD_SOURCES src/cpu/isa_avx2.c src/cpu/reals_avx2.c src/cpu/map_avx2.c)
    list(APPEND SCANFOLD_ISA_DEFINITIONS SF_HAVE_AVX2)
  endif()
  if(SCANFOLD_AVX512)
    list(APPEND SCANFOLD_SOURCES src/cpu/isa_avx512.c src/cpu/reals_avx512.c src/cpu/map_avx512.c)
    list(APPEND SCANFOLD_ISA_DEFINITIONS SF_HAVE_AVX512)
  endif()
  set_source_files_properties(src/cpu/isa_avx2.c src/cpu/reals_avx2.c src/cpu/map_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mf16c;-mfma")
  set_source_files_properties(src/cpu/isa_avx512.c src/cpu/reals_avx512.c src/cpu/map_avx512.c PROPERTIES COMPILE_OPTIONS
    "-mavx2;-mf16c;-mfma;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mprefer-vector-width=512")
elseif(processor MATCHES "aarch64|arm64")
  list(APPEND SCANFOLD_SOURCES src/cpu/isa_neon.c src/cpu/reals_neon.c src/cpu/map_neon.c)
  list(APPEND SCANFOLD_ISA_DEFINITIONS SF_HAVE_NEON)
endif()

# Other files need not know which there are, and are compiled in the same way whichever there are.
set_property(SOURCE src/cpu/detect.c APPEND PROPERTY COMPILE_DEFINITIONS ${SCANFOLD_ISA_DEFINITIONS})

# Those of them that are the kernels of an instruction set, and its elementwise loops.
set(SCANFOLD_KERNEL_SOURCES ${SCANFOLD_SOURCES})
list(FILTER SCANFOLD_KERNEL_SOURCES INCLUDE REGEX "cpu/(isa|reals)_")
set(SCANFOLD_LOOP_SOURCES ${SCANFOLD_SOURCES})
list(FILTER SCANFOLD_LOOP_SOURCES INCLUDE REGEX "cpu/map_")

# The kernels spell out what they want unrolled; beyond that -O3 only makes them longer to compile. Nothing is thrown through them, so they need no
# tables of how to unwind: a debugger has those of -g.
set_property(SOURCE ${SCANFOLD_KERNEL_SOURCES} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O2>)
set_property(SOURCE ${SCANFOLD_KERNEL_SOURCES} ${SCANFOLD_LOOP_SOURCES} APPEND PROPERTY COMPILE_OPTIONS -fno-asynchronous-unwind-tables)
# Loops begin at addresses that suit the processor; what is only jumped to need not.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set_property(SOURCE ${SCANFOLD_KERNEL_SOURCES} ${SCANFOLD_LOOP_SOURCES} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-falign-jumps=1> $<$<CONFIG:Release>:-falign-labels=1>)
endif()
# Portable kernels are there for when there are no others: what makes them smaller counts for more than the tenth that
# this costs sums of short odd rows and of three columns. (-fno-tree-pre, which is as tempting, costs all scans a tenth.)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set_property(SOURCE src/cpu/isa_portable.c src/cpu/reals_portable.c APPEND PROPERTY COMPILE_OPTIONS -fno-thread-jumps -fno-tree-vrp)
endif()
# Elementwise loops leave vectorising to the compiler. Neither flag changes a value: errno and the
# exception flags are not read.
set_property(SOURCE ${SCANFOLD_KERNEL_SOURCES} ${SCANFOLD_LOOP_SOURCES} APPEND PROPERTY COMPILE_OPTIONS -fno-math-errno -fno-trapping-math)

# Tests of another instruction set need the portable kernels only to link; and with few cases,
# optimising takes longer than it saves.
set(SCANFOLD_QUICK "" CACHE STRING "instruction sets whose kernels are not optimised, such as portable;avx2: slow, and compiled in a fifth of the time")
foreach(isa ${SCANFOLD_QUICK})
  set_property(SOURCE src/cpu/isa_${isa}.c src/cpu/reals_${isa}.c src/cpu/map_${isa}.c APPEND PROPERTY COMPILE_OPTIONS -O0)
endforeach()

# An instruction set's kernels take minutes to compile, everything else seconds. Builders start files
# in this order: with the long ones first, all cores are busy until the end. The longest is that of the reals of the
# widest vectors, which the lists above have last.
list(REMOVE_ITEM SCANFOLD_SOURCES ${SCANFOLD_KERNEL_SOURCES} ${SCANFOLD_LOOP_SOURCES})
list(REVERSE SCANFOLD_KERNEL_SOURCES)
list(REVERSE SCANFOLD_LOOP_SOURCES)
list(PREPEND SCANFOLD_SOURCES ${SCANFOLD_KERNEL_SOURCES} ${SCANFOLD_LOOP_SOURCES})

include(src/cuda/sources.cmake)

# What makes decisions and goes over no elements: -O3 makes it half as large again, and no faster.
set(SCANFOLD_DECIDING_SOURCES ${SCANFOLD_SOURCES})
list(FILTER SCANFOLD_DECIDING_SOURCES EXCLUDE REGEX "src/cpu/|src/ref/|core/(program|segments)")
set_property(SOURCE ${SCANFOLD_DECIDING_SOURCES} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O2>)

# Loops whose length is a constant in one instance and not in another ask to be unrolled in both;
# clang warns about the second.
if(CMAKE_C_COMPILER_ID MATCHES Clang)
  set_property(SOURCE ${SCANFOLD_KERNEL_SOURCES} ${SCANFOLD_LOOP_SOURCES} APPEND PROPERTY COMPILE_OPTIONS -Wno-pass-failed)
endif()
