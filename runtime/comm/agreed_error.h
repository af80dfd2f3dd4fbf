// The error that all ranks have together.
#pragma once

#include "runtime/core/error.h"

namespace tessera::rt {

/// An error that every rank knows of and ends with, so that it is said once.
class AgreedError : public Error {
public:
  using Error::Error;
};

} // namespace tessera::rt
