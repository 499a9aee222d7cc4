// A wall clock that jumps on command, for a program that is started with this library in LD_PRELOAD. KIT_CLOCK_JUMP names
// a file of eight bytes: nanoseconds to add, a signed integer of this machine. It is mapped, so whoever writes to it moves
// the clock of the running program. The monotonic clock is left alone: no real jump moves that one.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t second = 1000000000;
static const int64_t still = 0;
// The dynamic linker and other constructors may ask for the time before the file is mapped.
static const volatile int64_t *jump = &still;

__attribute__((constructor)) static void map_jump(void) {
  const char *path = getenv("KIT_CLOCK_JUMP");
  if (path == NULL) return;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *const mapped = mmap(NULL, sizeof still, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) jump = mapped;
}

// The plain system call: looking up the C library's own function may need the time itself.
int clock_gettime(clockid_t clock, struct timespec *now) {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return (int)result;
  const int64_t nanos = now->tv_sec * second + now->tv_nsec + *jump;
  now->tv_sec = nanos / second;
  now->tv_nsec = nanos % second;
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
  if (out != NULL) *out = precise.tv_sec;
  return precise.tv_sec;
}
