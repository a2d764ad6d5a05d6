# SCANFOLD_NATIVE: the kernels of this machine's best instruction set among those asked for, and portable ones that are not optimised: they are there to be compared with.
# What src/cpu/isa_*.c ask of a processor is asked here.
if(NOT CMAKE_CROSSCOMPILING AND NOT SCANFOLD_PORTABLE_ONLY)
  include(CheckCSourceRuns)
  set(asks_avx2 "__builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\")")
  set(asks_avx512 "__builtin_cpu_supports(\"avx512f\") && __builtin_cpu_supports(\"avx512bw\") && __builtin_cpu_supports(\"avx512dq\") && __builtin_cpu_supports(\"avx512vl\")")
  foreach(isa avx2 avx512)
    check_c_source_runs("int main(void) { __builtin_cpu_init(); return !(${asks_${isa}}); }" SCANFOLD_MACHINE_HAS_${isa})
  endforeach()
  if(SCANFOLD_AVX512 AND SCANFOLD_MACHINE_HAS_avx512)
    set(SCANFOLD_AVX2 OFF)
    set(SCANFOLD_QUICK portable)
  elseif(SCANFOLD_AVX2 AND SCANFOLD_MACHINE_HAS_avx2)
    set(SCANFOLD_AVX512 OFF)
    set(SCANFOLD_QUICK portable)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64") # all of these have NEON
    set(SCANFOLD_QUICK portable)
  else() # the portable kernels are its best
    set(SCANFOLD_AVX2 OFF)
    set(SCANFOLD_AVX512 OFF)
  endif()
endif()
