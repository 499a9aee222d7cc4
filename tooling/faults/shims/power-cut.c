// Tells what a power cut would leave of a file: after each fsync or fdatasync that succeeded, the size that the file had
// before the call is written to `<KIT_POWER_CUT>/<file name>.synced`. Whoever plays the power cut kills the program and
// cuts the file there. A file `delay` in the same folder, eight bytes, holds microseconds by which each sync is slowed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t none = 0;
static const volatile int64_t *delay = &none;
static const char *folder;

__attribute__((constructor)) static void open_folder(void) {
  const char *const named = getenv("KIT_POWER_CUT");
  if (named == NULL) return;
  // A copy: Redis writes its process title over the environment.
  folder = strdup(named);
  if (folder == NULL) return;
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/delay", folder);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *const mapped = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) delay = mapped;
}

static void note(int file, off_t size) {
  char link[64], name[PATH_MAX], path[2 * PATH_MAX], text[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, name, sizeof name - 1);
  if (length <= 0) return;
  name[length] = '\0';
  const char *const slash = strrchr(name, '/');
  snprintf(path, sizeof path, "%s/%s.synced", folder, slash == NULL ? name : slash + 1);
  const int target = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (target < 0) return;
  // Always of one length, so that an older figure is overwritten whole.
  const int digits = snprintf(text, sizeof text, "%020" PRIdMAX "\n", (intmax_t)size);
  if (pwrite(target, text, (size_t)digits, 0) != digits) unlink(path);
  close(target);
}

static int sync_and_note(int file, const char *name) {
  int (*const real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  struct stat before;
  const int noted = folder != NULL && fstat(file, &before) == 0 && S_ISREG(before.st_mode);
  if (noted && *delay > 0) usleep((useconds_t)*delay);
  const int result = real(file);
  if (result == 0 && noted) note(file, before.st_size);
  return result;
}

int fsync(int file) { return sync_and_note(file, "fsync"); }

int fdatasync(int file) { return sync_and_note(file, "fdatasync"); }
