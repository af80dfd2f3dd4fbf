// See mpi_library.h.
#include "runtime/comm/mpi/mpi_library.h"

#include "runtime/core/error.h"

#include <dlfcn.h>

namespace tessera::rt {
namespace {

constexpr const char *libraryName = "libmpi.so.40";

template <typename T> void resolve(void *library, const char *name, T &symbol) {
  void *address = dlsym(library, name);
  if (!address)
    throw Error(libraryName, " has no '", name, "': it is not Open MPI 3 or 4");
  symbol = reinterpret_cast<T>(address);
}

} // namespace

MpiLibrary MpiLibrary::load() {
  // Open MPI's plug-ins look for its symbols in the global scope.
  void *library = dlopen(libraryName, RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    throw Error("started under mpirun, but MPI cannot be loaded (", dlerror(),
                "); install Open MPI 4 (Debian: openmpi-bin), or start the program without mpirun");
  MpiLibrary mpi;
  resolve(library, "MPI_Init_thread", mpi.initThread);
  resolve(library, "MPI_Finalize", mpi.finalize);
  resolve(library, "MPI_Abort", mpi.abort);
  resolve(library, "MPI_Comm_rank", mpi.commRank);
  resolve(library, "MPI_Comm_size", mpi.commSize);
  resolve(library, "MPI_Comm_set_errhandler", mpi.commSetErrhandler);
  resolve(library, "MPI_Isend", mpi.isend);
  resolve(library, "MPI_Irecv", mpi.irecv);
  resolve(library, "MPI_Test", mpi.test);
  resolve(library, "MPI_Get_count", mpi.getCount);
  resolve(library, "MPI_Error_string", mpi.errorString);
  resolve(library, "ompi_mpi_comm_world", mpi.world);
  resolve(library, "ompi_mpi_byte", mpi.byte);
  resolve(library, "ompi_mpi_errors_return", mpi.errorsReturn);
  return mpi;
}

void MpiLibrary::check(int code, const char *what) const {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  errorString(code, text, &length);
  throw Error("MPI failed to ", what, ": ", text);
}

} // namespace tessera::rt
