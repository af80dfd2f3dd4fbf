// Folders: made, renamed and removed so that what is there lasts through a loss of power.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::rt {

/// Creates the folder and the missing ones above it, which last through a loss of power then; returns those
/// created, the innermost last.
std::vector<std::string> createFolders(const std::string &path);
/// Creates one folder, which must not be there.
void createFolder(const std::string &path);

/// The names in a folder, ascending. Throws Error where it cannot be read.
std::vector<std::string> listFolder(const std::string &path);
bool pathExists(const std::string &path);
bool isFolder(const std::string &path);

/// Gives a file or folder another name in the same file system; what has that name must be of its kind, a
/// folder empty. It lasts when both folders are synced.
void renamePath(const std::string &from, const std::string &to);
/// Puts the folder `from` in the place of the folder `to`, which gets the name `from`; at once where the file
/// system can; else there is a moment in which `to` is not there, and is `from` with `.aside` behind it.
void exchangeFolders(const std::string &from, const std::string &to);

/// Removes a file, or a folder with all in it. What is not there is no error.
void removeAll(const std::string &path);

/// Brings the names in a folder to the disk: a file created in it, a rename and a removal last through a loss
/// of power only then. A folder that may be written but not read cannot be opened, and is left to the system.
void syncFolder(const std::string &path);
/// The folder that a path is in: `.` for a mere name.
std::string folderOf(const std::string &path);

/// Bytes that may still be written to the file system of a folder.
uint64_t freeBytes(const std::string &folder);

} // namespace tessera::rt
