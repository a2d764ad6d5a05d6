# The library's sources. Instruction sets are translation units with flags of their own.
set(SCANFOLD_SOURCES
  src/api.c src/context.c src/backend.c
  src/core/status.c src/core/view.c src/core/step.c src/core/arena.c
  src/ref/ref.c
  src/cpu/cpu.c src/cpu/detect.c)
