# The Debian packages that `make deb` has CPack make: the library, what compiling with it needs, and the command. Included where
# SCANFOLD_DEB is on; each install rule says by its component which package a file belongs to.
set(library libscanfold${SCANFOLD_SOVERSION})
set(names runtime ${library} development libscanfold-dev command scanfold)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME scanfold)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "scans and folds of tensors with the same bits everywhere")
set(CPACK_PACKAGE_CONTACT "The Scanfold developers <scanfold@users.noreply.github.com>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development command)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers ${PROJECT_BINARY_DIR}/debian/shlibs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS nvidia-cuda-toolkit)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "Cumulative sums and reductions along any axis of a tensor, fused with the
work around them, at close to the speed of a memory copy. Results have the
same bits on every CPU, on every GPU and with any number of threads.
.
This package has the shared library. CUDA is used if the machine has it.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libscanfold-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library} (= ${version})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "Cumulative sums and reductions along any axis of a tensor, with the same
bits on every CPU, on every GPU and with any number of threads.
.
This package has the header, which is the manual, the static library, and
the files for pkg-config and CMake.")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME scanfold)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION math)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "${library} (= ${version})")
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "The command scanfold computes cumulative sums, reductions and expressions
of NumPy's .npy files, which may be larger than memory. Results have the
same bits on every CPU, on every GPU and with any number of threads.")

# What every package of Debian's has: its licence, and its changes, compressed.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(folder ${PROJECT_BINARY_DIR}/debian)
# The loader's cache is made anew after the library has come or gone; and this is what a program linked with it depends on.
file(WRITE ${folder}/triggers "activate-noawait ldconfig\n")
file(WRITE ${folder}/shlibs "libscanfold ${SCANFOLD_SOVERSION} ${library} (>= ${PROJECT_VERSION})\n")
configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog.in ${folder}/changelog.Debian @ONLY)
function(compress from to)
  execute_process(COMMAND gzip -9nc ${from} OUTPUT_FILE ${to} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
compress(${folder}/changelog.Debian ${folder}/changelog.Debian.gz)
compress(${PROJECT_SOURCE_DIR}/CHANGELOG.md ${folder}/changelog.gz)
compress(${PROJECT_SOURCE_DIR}/cli/scanfold.1 ${folder}/scanfold.1.gz)
while(names)
  list(POP_FRONT names component package)
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/copyright ${folder}/changelog.Debian.gz ${folder}/changelog.gz
          DESTINATION share/doc/${package} COMPONENT ${component})
endwhile()
install(FILES ${folder}/scanfold.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
include(CPack)
