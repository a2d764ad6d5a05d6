# scanfold_hardened: what the library, the command line and the Python extension are compiled and linked with besides, each flag where the compiler has it. Sanitizers
# have checks of their own, which these would hide, and without optimisation the C library has no checked copies.
add_library(scanfold_hardened INTERFACE)
if(SCANFOLD_HARDEN AND NOT SCANFOLD_SANITIZE)
  include(CheckCCompilerFlag)
  include(CheckLinkerFlag)
  set(CMAKE_REQUIRED_FLAGS -Werror) # clang takes the other processors' flags too, and only warns that it does nothing
  # Return addresses and stacks; where calls may land (x86, then ARM).
  foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER SCANFOLD_HAS${flag} has)
    check_c_compiler_flag(${flag} ${has})
    target_compile_options(scanfold_hardened INTERFACE $<$<BOOL:${${has}}>:${flag}>)
  endforeach()
  target_compile_options(scanfold_hardened INTERFACE $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
  # All symbols found when a file is loaded, and what was written for that read-only from then on.
  foreach(flag -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
    string(MAKE_C_IDENTIFIER SCANFOLD_HAS${flag} has)
    check_linker_flag(C ${flag} ${has})
    target_link_options(scanfold_hardened INTERFACE $<$<BOOL:${${has}}>:${flag}>)
  endforeach()
  unset(CMAKE_REQUIRED_FLAGS)
  # Not the kernels: their arrays are registers, of constant size and index, and their calls are counted.
  set_property(SOURCE ${SCANFOLD_KERNEL_SOURCES} ${SCANFOLD_LOOP_SOURCES} APPEND PROPERTY COMPILE_OPTIONS -fno-stack-protector -U_FORTIFY_SOURCE)
endif()
