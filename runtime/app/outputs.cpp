// See outputs.h.
#include "runtime/app/outputs.h"

#include "runtime/storage/file.h"
#include "runtime/storage/folder.h"

#include <random>
#include <unistd.h>

namespace tessera::rt {

void saveText(Session &session, const std::string &path, const std::string &text) {
  session.agreed([&] {
    if (session.rank() != 0)
      return;
    File file = File::createTemporary(path);
    file.write(0, text.data(), text.size());
    file.sync();
    commitFile(path);
  });
}

void checkWritable(Session &session, const std::string &path) {
  session.agreed([&] {
    if (path.empty() || session.rank() != 0)
      return;
    File::createTemporary(path);
    removeUnfinishedFiles();
  });
}

/// Whether `path` has this text.
static bool holds(const std::string &path, const std::string &text) {
  try {
    File file = File::openRead(path);
    std::string found(text.size(), ' ');
    file.read(0, found.data(), found.size());
    return found == text;
  } catch (const Error &) {
    return false;
  }
}

void checkShared(Session &session, const std::string &path) {
  if (path.empty())
    return;
  std::random_device device;
  std::string nonce = std::to_string(device()) + " " + std::to_string(device());
  try {
    session.agreed([&] {
      if (session.rank() == 0)
        File::createTemporary(path).write(0, nonce.data(), nonce.size());
    });
    std::string first = session.communication().exchange(nonce)[0];
    session.agreed([&] {
      if (!holds(temporaryName(path), first))
        throw Error("what rank 0 writes for '", path,
                    "' is not there: every rank writes its part of that file, so the folder must be one that "
                    "all hosts share");
      File::openWrite(temporaryName(path));
    });
  } catch (...) {
    if (session.rank() == 0)
      removeUnfinishedFiles();
    throw;
  }
  if (session.rank() == 0)
    removeUnfinishedFiles();
}

void checkSharedFolder(Session &session, const std::string &folder) {
  if (folder.empty())
    return;
  std::vector<std::string> created;
  auto remove = [&] {
    for (; !created.empty(); created.pop_back())
      ::rmdir(created.back().c_str());
  };
  try {
    session.agreed([&] {
      if (session.rank() == 0)
        created = createFolders(folder);
    });
    checkShared(session, folder + "/tessera");
  } catch (...) {
    remove();
    throw;
  }
  remove();
}

} // namespace tessera::rt
