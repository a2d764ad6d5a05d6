# What `cmake --install` puts where, and how others find it: find_package(scanfold), or pkg-config.
# A component is what a package of a distribution takes: runtime, the shared library; development; command.
install(TARGETS scanfold_shared scanfold_static EXPORT scanfoldTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/include/scanfold.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)

set(SCANFOLD_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/scanfold)
install(EXPORT scanfoldTargets NAMESPACE scanfold:: DESTINATION ${SCANFOLD_CMAKE_DIR} COMPONENT development)
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/scanfoldConfig.cmake.in ${PROJECT_BINARY_DIR}/scanfoldConfig.cmake
  INSTALL_DESTINATION ${SCANFOLD_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/scanfoldConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/scanfoldConfig.cmake ${PROJECT_BINARY_DIR}/scanfoldConfigVersion.cmake
  DESTINATION ${SCANFOLD_CMAKE_DIR} COMPONENT development)

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
install(FILES ${PROJECT_BINARY_DIR}/scanfold.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

if(SCANFOLD_DEB)
  include(packaging/debian/packages.cmake)
endif()
