# The CUDA backend: found and loaded at run time, so that it builds anywhere and links nothing. Appends to SCANFOLD_SOURCES.
file(GLOB SCANFOLD_KERNELS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cu ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cuh
     ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.h)
list(APPEND SCANFOLD_KERNELS ${PROJECT_SOURCE_DIR}/src/core/product.inc.h ${PROJECT_SOURCE_DIR}/src/core/exponentials.inc.h) # value.cuh includes them
set(SCANFOLD_EMBEDDED ${PROJECT_BINARY_DIR}/embedded_kernels.c)
string(REPLACE ";" "," kernels "${SCANFOLD_KERNELS}")
add_custom_command(OUTPUT ${SCANFOLD_EMBEDDED}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${SCANFOLD_EMBEDDED} -DINPUTS=${kernels} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${SCANFOLD_KERNELS} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  COMMENT "Embedding the CUDA kernels" VERBATIM)
list(APPEND SCANFOLD_SOURCES
  src/cuda/driver.c src/cuda/driver_find.c src/cuda/jit.c src/cuda/cache.c src/cuda/cache_files.c src/cuda/cache_sha256.c
  src/cuda/cuda.c src/cuda/cuda_device.c src/cuda/cuda_scratch.c src/cuda/cuda_streams.c src/cuda/cuda_warm.c src/cuda/cuda_api.c
  src/cuda/emit.c src/cuda/emit_scan.c src/cuda/emit_chunks.c src/cuda/emit_pieces.c src/cuda/emit_fold.c src/cuda/emit_fold_ways.c src/cuda/emit_cuts.c src/cuda/emit_fuse.c src/cuda/emit_again.c src/cuda/emit_chain.c src/cuda/emit_apply.c src/cuda/emit_apply_short.c src/cuda/emit_apply_columns.c src/cuda/emit_apply_group.c src/cuda/emit_segments.c src/cuda/emit_segments_apply.c src/cuda/emit_text.c src/cuda/tuning.c
  ${SCANFOLD_EMBEDDED})
