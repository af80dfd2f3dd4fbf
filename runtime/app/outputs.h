// The files that a command writes at its end: tried at its start, so that no training is lost for a folder.
#pragma once

#include "runtime/program/session.h"

#include <string>

namespace tessera::rt {

/// Together: rank 0 writes the file by way of a temporary name.
void saveText(Session &session, const std::string &path, const std::string &text);

/// Together: a file that rank 0 alone is to write can be created. Nothing where `path` is empty.
void checkWritable(Session &session, const std::string &path);

/// Together: a file that all ranks are to write parts of can be created, and is the same one on all their
/// hosts. Nothing where `path` is empty.
void checkShared(Session &session, const std::string &path);

/// Together: the same of a folder, which need not be there yet; it is not there afterwards either.
void checkSharedFolder(Session &session, const std::string &folder);

} // namespace tessera::rt
