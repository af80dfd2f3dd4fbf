# Thin wrappers, so that a new dialect, pass folder or test costs one line.

# Include roots of everything that sees MLIR: the source root, the build root (generated files) and include/.
add_library(tessera_compiler_flags INTERFACE)
target_include_directories(tessera_compiler_flags INTERFACE
  ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}/include)
target_include_directories(tessera_compiler_flags SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_compile_options(tessera_compiler_flags INTERFACE -Wall -Wextra -Wno-unused-parameter
  # libstdc++ silences its own use of get_temporary_buffer by a pragma, which precompiled headers lose.
  -Wno-deprecated-declarations)

# MLIR's headers are two thirds of the time of a compilation: they are compiled once, and nothing of the project is among
# them, so that no change of ours compiles them again. The time stamp would make each one new to ccache.
# CMake names the header beside its compiled form, by an option that ccache does not make relative: no other folder's
# compilation would be found in the cache. Clang needs the compiled form alone.
set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
file(WRITE ${CMAKE_BINARY_DIR}/headers.cpp "")
add_library(tessera_headers OBJECT ${CMAKE_BINARY_DIR}/headers.cpp)
target_link_libraries(tessera_headers PRIVATE tessera_compiler_flags)
target_compile_options(tessera_headers PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
target_precompile_headers(tessera_headers PRIVATE
  <llvm/ADT/MapVector.h>
  <llvm/ADT/SetVector.h>
  <llvm/ADT/StringExtras.h>
  <llvm/ADT/StringMap.h>
  <llvm/ADT/TypeSwitch.h>
  <llvm/Support/raw_ostream.h>
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/Linalg/IR/Linalg.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/DialectImplementation.h>
  <mlir/IR/PatternMatch.h>
  <mlir/Pass/PassManager.h>)

# The compiled form names its own folder, so no two folders have the same: to ccache (CCACHE_PCH_EXTSUM in
# CMakePresets.json) it is what the preprocessor makes of the headers, which is the same wherever the sources lie.
set(headers ${CMAKE_BINARY_DIR}/CMakeFiles/tessera_headers.dir/cmake_pch.hxx)
set(headers_sum ${headers}.pch.sum)
add_custom_command(OUTPUT ${headers_sum}
  COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -fPIC "$<$<CONFIG:Release>:-DNDEBUG>" -isystem ${MLIR_INCLUDE_DIRS}
    -w -E -P -dD -x c++ ${headers} -o ${headers_sum} -MD -MT ${headers_sum} -MF ${headers_sum}.d
  DEPENDS ${headers} DEPFILE ${headers_sum}.d COMMENT "Preprocessing the precompiled headers, for ccache"
  COMMAND_EXPAND_LISTS VERBATIM) # without options that are empty
add_custom_target(tessera_headers_sum DEPENDS ${headers_sum})
add_dependencies(tessera_headers tessera_headers_sum)

# The headers are compiled as position independent code of a library (-fPIC), so an executable that reuses them is too.
function(tessera_reuse_headers executable)
  set_target_properties(${executable} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${executable} PRIVATE -fPIC)
  target_precompile_headers(${executable} REUSE_FROM tessera_headers)
endfunction()

# tessera_add_library(Name SOURCES... [TABLEGEN tgt...] [LINK lib...]): a static library of the compiler.
function(tessera_add_library name)
  cmake_parse_arguments(ARG "" "" "TABLEGEN;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC tessera_compiler_flags ${ARG_LINK})
  target_precompile_headers(${name} REUSE_FROM tessera_headers)
  if(ARG_TABLEGEN)
    add_dependencies(${name} ${ARG_TABLEGEN})
  endif()
endfunction()

# tessera_add_tool(name SOURCES... [LINK lib...]): an executable of the compiler, linked with the shared MLIR and LLVM.
function(tessera_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tessera_compiler_flags ${TESSERA_MALLOC} ${ARG_LINK} MLIR LLVM)
  tessera_reuse_headers(${name})
endfunction()

# tessera_add_gtest(name SOURCES... [LINK lib...]): one GoogleTest binary in build/bin, found by the test runner.
function(tessera_add_gtest name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main Threads::Threads)
  if("MLIR" IN_LIST ARG_LINK)
    tessera_reuse_headers(${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY TESSERA_GTESTS ${name})
endfunction()
