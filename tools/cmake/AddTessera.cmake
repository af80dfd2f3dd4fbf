# Thin wrappers, so that a new dialect, pass folder or test costs one line.

# Include roots of everything that sees MLIR: the source root, the build root (generated files) and include/.
add_library(tessera_compiler_flags INTERFACE)
target_include_directories(tessera_compiler_flags INTERFACE
  ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}/include)
target_include_directories(tessera_compiler_flags SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_compile_options(tessera_compiler_flags INTERFACE -Wall -Wextra -Wno-unused-parameter)

# tessera_add_library(Name SOURCES... [TABLEGEN tgt...] [LINK lib...]): a static library of the compiler.
function(tessera_add_library name)
  cmake_parse_arguments(ARG "" "" "TABLEGEN;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC tessera_compiler_flags ${ARG_LINK})
  if(ARG_TABLEGEN)
    add_dependencies(${name} ${ARG_TABLEGEN})
  endif()
endfunction()

# tessera_add_tool(name SOURCES... [LINK lib...]): an executable of the compiler, linked with the shared MLIR and LLVM.
function(tessera_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tessera_compiler_flags ${ARG_LINK} MLIR LLVM)
endfunction()

# tessera_add_gtest(name SOURCES... [LINK lib...]): one GoogleTest binary in build/bin, found by the test runner.
function(tessera_add_gtest name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main Threads::Threads)
  set_property(GLOBAL APPEND PROPERTY TESSERA_GTESTS ${name})
endfunction()
