/*
 * Latency benchmark: measures how long this program is not running, and how late it wakes up.
 *
 *     jitter SECONDS [THRESHOLD_US]
 *
 * First it reads the clock for SECONDS without a pause: a gap above THRESHOLD_US (100) between two
 * readings is time in which it did not run. Then it sleeps until every whole millisecond for
 * SECONDS and measures the delay; a wake-up that it missed while it was late also counts as late.
 * Prints one line of JSON. Needs only libc; builds with tcc and gcc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define PERIOD_NS 1000000
#define BUCKETS 64
#define MOST_SECONDS 3600

struct spin {
    uint64_t buckets[BUCKETS]; /* bucket b: gaps from 2^(b-1) ns to below 2^b ns */
    uint64_t readings;
    int64_t passed_ns, lost_ns, longest_ns, on_cpu_ns;
    long gaps, switched_out;
};

static int64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static long switched_out(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_nivcsw;
}

/* Get the value of a key in /proc/self/status without spaces; "" if it is missing. */
static void status_of(const char *key, char *value, size_t size)
{
    char line[4096];
    size_t length = strlen(key);
    FILE *file = fopen("/proc/self/status", "r");
    value[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, length) == 0 && line[length] == ':') {
            const char *start = line + length + 1;
            start += strspn(start, " \t");
            snprintf(value, size, "%.*s", (int)strcspn(start, " \t\n"), start);
        }
    if (file != NULL)
        fclose(file);
}

static int bucket_of(int64_t ns)
{
    int bucket = 0;
    while (ns > 0 && bucket < BUCKETS - 1) {
        ns >>= 1;
        bucket++;
    }
    return bucket;
}

static void spin(struct spin *result, double seconds, int64_t threshold_ns)
{
    int64_t cpu_before = read_ns(CLOCK_PROCESS_CPUTIME_ID);
    long out_before = switched_out();
    int64_t begun = read_ns(CLOCK_MONOTONIC), last = begun;
    while ((double)(last - begun) < seconds * 1e9) {
        int64_t now = read_ns(CLOCK_MONOTONIC), gap = now - last;
        last = now;
        result->readings++;
        result->buckets[bucket_of(gap)]++;
        if (gap > threshold_ns) {
            result->gaps++;
            result->lost_ns += gap;
        }
        if (gap > result->longest_ns)
            result->longest_ns = gap;
    }
    result->passed_ns = last - begun;
    result->on_cpu_ns = read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
    result->switched_out = switched_out() - out_before;
}

/* Return the upper bound, in microseconds, of the bucket that reaches this share of all gaps. */
static double percentile_us(const struct spin *result, double share)
{
    uint64_t seen = 0;
    int bucket;
    for (bucket = 0; bucket < BUCKETS - 1; bucket++) {
        seen += result->buckets[bucket];
        if ((double)seen >= share * (double)result->readings)
            break;
    }
    return (double)((uint64_t)1 << bucket) / 1e3;
}

static void wake(double *late_us, long count)
{
    int64_t due = read_ns(CLOCK_MONOTONIC);
    long i;
    for (i = 0; i < count; i++) {
        struct timespec until;
        due += PERIOD_NS;
        until.tv_sec = (time_t)(due / 1000000000);
        until.tv_nsec = (long)(due % 1000000000);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
        late_us[i] = (double)(read_ns(CLOCK_MONOTONIC) - due) / 1e3;
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double ranked(const double *sorted, long count, double share)
{
    long rank = (long)(share * (double)count);
    return sorted[rank < count ? rank : count - 1];
}

int main(int argc, char **argv)
{
    static struct spin result;
    char cpus[4096], clocksource[64] = "";
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    double threshold_us = argc > 2 ? atof(argv[2]) : 100;
    double *late_us;
    long count;
    FILE *file;

    if (argc < 2 || argc > 3 || seconds <= 0 || seconds > MOST_SECONDS || threshold_us <= 0) {
        fprintf(stderr, "usage: jitter SECONDS [THRESHOLD_US]   (SECONDS up to %d)\n",
                MOST_SECONDS);
        return 2;
    }
    count = (long)(seconds * 1e9 / PERIOD_NS);
    if (count < 1)
        count = 1;
    late_us = malloc((size_t)count * sizeof late_us[0]);
    if (late_us == NULL) {
        fprintf(stderr, "jitter: not enough memory for %ld wake-ups\n", count);
        return 1;
    }
    memset(late_us, 1, (size_t)count * sizeof late_us[0]); /* avoids page faults later */

    spin(&result, seconds, (int64_t)(threshold_us * 1e3));
    wake(late_us, count);

    qsort(late_us, (size_t)count, sizeof late_us[0], ascending);
    status_of("Cpus_allowed_list", cpus, sizeof cpus);
    file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
    if (file != NULL) {
        if (fscanf(file, "%63[a-z0-9_-]", clocksource) != 1)
            clocksource[0] = '\0';
        fclose(file);
    }
    printf("{\"program\": \"jitter\", \"seconds\": %.3f, \"threshold_us\": %.1f, "
           "\"readings\": %lu, \"reading_us\": %.3f, \"gaps\": %ld, \"lost_percent\": %.3f, "
           "\"longest_gap_us\": %.1f, \"gap_p999_us\": %.3f, \"off_cpu_percent\": %.3f, "
           "\"switched_out\": %ld, \"wakes\": %ld, \"late_median_us\": %.1f, "
           "\"late_p99_us\": %.1f, \"late_max_us\": %.1f, \"clocksource\": \"%s\", "
           "\"cpus_allowed\": \"%s\"}\n",
           seconds, threshold_us, (unsigned long)result.readings,
           (double)(result.passed_ns - result.lost_ns) / 1e3 /
               (double)(result.readings - (uint64_t)result.gaps > 0
                            ? result.readings - (uint64_t)result.gaps
                            : 1),
           result.gaps, 100.0 * (double)result.lost_ns / (double)result.passed_ns,
           (double)result.longest_ns / 1e3, percentile_us(&result, 0.999),
           100.0 * (1.0 - (double)result.on_cpu_ns / (double)result.passed_ns),
           result.switched_out, count, ranked(late_us, count, 0.5), ranked(late_us, count, 0.99),
           late_us[count - 1], clocksource, cpus);
    free(late_us);
    return 0;
}
