// The functions and handles of Open MPI that the transport uses, found at run time: the program needs no MPI
// to be installed unless it runs under mpirun.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace tessera::rt {

/// Everything is resolved. Named as in MPI, without the prefix.
struct MpiLibrary {
  decltype(&MPI_Init_thread) initThread;
  decltype(&MPI_Finalize) finalize;
  decltype(&MPI_Abort) abort;
  decltype(&MPI_Comm_rank) commRank;
  decltype(&MPI_Comm_size) commSize;
  decltype(&MPI_Comm_set_errhandler) commSetErrhandler;
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Irecv) irecv;
  decltype(&MPI_Test) test;
  decltype(&MPI_Get_count) getCount;
  decltype(&MPI_Error_string) errorString;
  MPI_Comm world;
  MPI_Datatype byte;
  MPI_Errhandler errorsReturn;

  /// Loads the library, which stays loaded. Throws Error that says how to install it when it is missing, or
  /// which symbol it lacks.
  static MpiLibrary load();
  /// Throws Error with MPI's own text when `code` is not success; `what` is what failed.
  void check(int code, const char *what) const;
};

} // namespace tessera::rt
