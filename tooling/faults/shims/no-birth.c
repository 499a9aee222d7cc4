// A file system without birth times, such as NFS, CIFS or ext3, for a program that is started with this library in LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

// libuv makes the system call itself.
long syscall(long number, ...) {
  static long (*next)(long, ...);
  if (next == NULL) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  long given[6];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; i++) given[i] = va_arg(rest, long);
  va_end(rest);
  const long result = next(number, given[0], given[1], given[2], given[3], given[4], given[5]);
  if (number != SYS_statx || result != 0) return result;
  struct statx *const facts = (struct statx *)given[4];
  facts->stx_mask &= ~STATX_BTIME;
  memset(&facts->stx_btime, 0, sizeof facts->stx_btime);
  return result;
}

int statx(int directory, const char *restrict path, int flags, unsigned int mask, struct statx *restrict facts) {
  return (int)syscall(SYS_statx, directory, path, flags, mask, facts, 0);
}
