# What `cmake --install` puts where, and how others find it: find_package(scanfold), or pkg-config.
install(TARGETS scanfold_shared scanfold_static EXPORT scanfoldTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/include/scanfold.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(SCANFOLD_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/scanfold)
install(EXPORT scanfoldTargets NAMESPACE scanfold:: DESTINATION ${SCANFOLD_CMAKE_DIR})
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/scanfoldConfig.cmake.in ${PROJECT_BINARY_DIR}/scanfoldConfig.cmake
  INSTALL_DESTINATION ${SCANFOLD_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/scanfoldConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/scanfoldConfig.cmake ${PROJECT_BINARY_DIR}/scanfoldConfigVersion.cmake
  DESTINATION ${SCANFOLD_CMAKE_DIR})

# pkg-config --static has to name what the static library leaves to its user.
set(SCANFOLD_LIBS_PRIVATE "-lm -pthread")
foreach(library ${CMAKE_DL_LIBS})
  string(APPEND SCANFOLD_LIBS_PRIVATE " -l${library}")
endforeach()
if(SCANFOLD_LINKER_NODELETE)
  string(APPEND SCANFOLD_LIBS_PRIVATE " -Wl,-z,nodelete")
endif()
# The prefix is where the .pc file is, two directories up from itself: an installed tree can be moved.
file(RELATIVE_PATH SCANFOLD_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/scanfold.pc.in ${PROJECT_BINARY_DIR}/scanfold.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/scanfold.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# cpack -G DEB (make deb): one package with the library, the header and the command.
set(CPACK_PACKAGE_NAME scanfold)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Scanfold developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION math)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "nvidia-cuda-toolkit")
if(PROJECT_IS_TOP_LEVEL)
  include(CPack)
endif()
