/* For LD_PRELOAD: shifts the wall clock of one program by CLOCK_OFFSET_MS milliseconds, like a machine whose clock is
   wrong. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long offset_us(void) {
  static long long offset;
  static int is_read;
  if (!is_read) {
    const char *setting = getenv("CLOCK_OFFSET_MS");
    offset = setting ? atoll(setting) * 1000 : 0;
    is_read = 1;
  }
  return offset;
}

static long long now_us(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000 + offset_us();
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  long long now = now_us();
  time->tv_sec = now / 1000000;
  time->tv_usec = now % 1000000;
  return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return (int)syscall(SYS_clock_gettime, clock, time);
  long long now = now_us();
  time->tv_sec = now / 1000000;
  time->tv_nsec = now % 1000000 * 1000;
  return 0;
}

time_t time(time_t *place) {
  time_t now = now_us() / 1000000;
  if (place) *place = now;
  return now;
}
