# `cmake --install`: the compiler, the runtime that executables are linked with, and a package for find_package(Tessera). CPack makes a
# Debian package of the same. docs/how-to/install.md.
include(CMakePackageConfigHelpers)

install(TARGETS tessera tessera-opt)
install(FILES ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libtessera-rt.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/tessera-rt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/TesseraConfig.cmake.in ${CMAKE_BINARY_DIR}/TesseraConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TesseraConfig.cmake ${CMAKE_BINARY_DIR}/TesseraConfigVersion.cmake DESTINATION ${package})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler of ONNX models to distributed native programs")
set(CPACK_PACKAGE_CONTACT "The authors of Tessera")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
# Libraries of the compiler; beside them it calls a C++ compiler to link executables, which need zlib.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "g++ | clang, zlib1g-dev")
# What executables load where it is there: MPI, and oneDNN for products of bf16.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin, libdnnl2")
include(CPack)
