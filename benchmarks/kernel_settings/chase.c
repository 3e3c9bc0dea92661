/*
 * Memory-bound benchmark: follows pointers in random order through memory of one page size.
 *
 *     chase small|huge lines|pages MIB [SECONDS [ROUNDS]]
 *
 * small: 4 KiB pages; huge: reserved 2 MiB pages.
 * lines: every cache line once per turn; pages: one line of every 4 KiB, so that every step is on
 * a different small page. Prints one line of JSON. Needs only libc; builds with tcc and gcc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif
#define MIB ((size_t)1 << 20)
#define LINE ((size_t)64)
#define SMALL_PAGE ((size_t)4096)
#define STEPS_PER_LOOK 16384 /* steps between two clock readings */
#define MOST_ROUNDS 1000
#define FREE_HUGE "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

static volatile uintptr_t sink; /* prevents the compiler from removing the loop */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static long faults(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt + used.ru_majflt;
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

static long free_huge_pages(void)
{
    long pages = 0;
    FILE *file = fopen(FREE_HUGE, "r");
    if (file != NULL) {
        if (fscanf(file, "%ld", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return pages;
}

static void on_bus_error(int signum)
{
    static const char text[] =
        "chase: SIGBUS: the huge pages that this CPU set may use are taken; "
        "ask for fewer MiB, or end who holds them\n";
    (void)signum;
    if (write(2, text, sizeof text - 1) < 0)
        _exit(2);
    _exit(1);
}

static char *memory(int huge, size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *area;
    if (huge)
        flags |= MAP_HUGETLB | MAP_HUGE_2MB;
    area = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (area == MAP_FAILED && huge) {
        fprintf(stderr,
                "chase: needs %lu free huge pages of 2 MiB, found %ld (%s): %s\n"
                "    reserve them (vm.nr_hugepages; in Lockstep: hardware class, hugepages), "
                "or ask for fewer MiB\n",
                (unsigned long)(size / (2 * MIB)), free_huge_pages(), FREE_HUGE, strerror(errno));
        exit(1);
    }
    if (area == MAP_FAILED) {
        fprintf(stderr, "chase: mmap of %lu MiB: %s\n", (unsigned long)(size / MIB),
                strerror(errno));
        exit(1);
    }
    /* EINVAL: the kernel has no transparent huge pages, so all pages are small. */
    if (!huge && madvise(area, size, MADV_NOHUGEPAGE) != 0 && errno != EINVAL) {
        fprintf(stderr, "chase: madvise(MADV_NOHUGEPAGE): %s\n", strerror(errno));
        exit(1);
    }
    return area;
}

static uint64_t random_state = 0x9e3779b97f4a7c15u; /* fixed: every run uses the same order */

static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Where element i of the chain lies. With one line per page, not the same line of every page:
   those would share a few sets of the cache. */
static void **place(char *area, size_t i, size_t stride)
{
    size_t shift = stride == SMALL_PAGE ? i % (SMALL_PAGE / LINE) * LINE : 0;
    return (void **)(area + i * stride + shift);
}

/* Sattolo: one cycle through all elements. */
static void link_up(char *area, size_t count, size_t stride)
{
    size_t i;
    for (i = 0; i < count; i++)
        *place(area, i, stride) = place(area, i, stride);
    for (i = count - 1; i > 0; i--) {
        void **one = place(area, i, stride);
        void **other = place(area, (size_t)(random_number() % i), stride);
        void *kept = *one;
        *one = *other;
        *other = kept;
    }
}

static void **follow(void **at, size_t steps)
{
    size_t i;
    for (i = 0; i < steps; i++)
        at = *at;
    return at;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double rounds[MOST_ROUNDS];
    char cpus[4096], page_tables[64];
    double seconds, touch_ns;
    int huge, count_rounds, i;
    size_t size, stride, count, offset;
    int64_t begun;
    long before, by_touch, by_chase;
    char *area;
    void **at;

    if (argc < 4 || argc > 6 || (strcmp(argv[1], "small") != 0 && strcmp(argv[1], "huge") != 0) ||
        (strcmp(argv[2], "lines") != 0 && strcmp(argv[2], "pages") != 0)) {
        fprintf(stderr, "usage: chase small|huge lines|pages MIB [SECONDS [ROUNDS]]\n");
        return 2;
    }
    huge = strcmp(argv[1], "huge") == 0;
    stride = strcmp(argv[2], "pages") == 0 ? SMALL_PAGE : LINE;
    size = (size_t)strtoul(argv[3], NULL, 10) * MIB;
    seconds = argc > 4 ? atof(argv[4]) : 5;
    count_rounds = argc > 5 ? atoi(argv[5]) : 5;
    if (size == 0 || size % (2 * MIB) != 0 || seconds <= 0 || count_rounds < 1 ||
        count_rounds > MOST_ROUNDS) {
        fprintf(stderr, "chase: expected an even MIB, SECONDS above 0, ROUNDS 1 to %d\n",
                MOST_ROUNDS);
        return 2;
    }
    count = size / stride;
    signal(SIGBUS, on_bus_error);

    area = memory(huge, size);
    before = faults();
    begun = now_ns();
    for (offset = 0; offset < size; offset += SMALL_PAGE)
        area[offset] = 1;
    touch_ns = (double)(now_ns() - begun);
    by_touch = faults() - before;
    status_of("VmPTE", page_tables, sizeof page_tables);

    link_up(area, count, stride);
    at = follow(place(area, 0, stride), count); /* one whole turn as a warm-up */
    if (at != place(area, 0, stride)) {
        fprintf(stderr, "chase: internal error: the chain is not a single cycle\n");
        return 1;
    }

    before = faults();
    for (i = 0; i < count_rounds; i++) {
        uint64_t steps = 0;
        int64_t passed;
        begun = now_ns();
        do {
            at = follow(at, STEPS_PER_LOOK);
            steps += STEPS_PER_LOOK;
            passed = now_ns() - begun;
        } while ((double)passed < seconds / count_rounds * 1e9);
        rounds[i] = (double)passed / (double)steps;
    }
    by_chase = faults() - before;
    sink = (uintptr_t)at;
    qsort(rounds, (size_t)count_rounds, sizeof rounds[0], ascending);
    status_of("Cpus_allowed_list", cpus, sizeof cpus);
    printf("{\"program\": \"chase\", \"pages\": \"%s\", \"spread\": \"%s\", \"mib\": %lu, "
           "\"ns_min\": %.3f, \"ns_median\": %.3f, \"ns_max\": %.3f, \"rounds\": %d, "
           "\"touch_ms\": %.3f, \"touch_faults\": %ld, \"chase_faults\": %ld, "
           "\"page_table_kib\": %s, \"cpus_allowed\": \"%s\"}\n",
           argv[1], argv[2], (unsigned long)(size / MIB), rounds[0],
           (rounds[(count_rounds - 1) / 2] + rounds[count_rounds / 2]) / 2,
           rounds[count_rounds - 1], count_rounds, touch_ns / 1e6, by_touch, by_chase,
           page_tables[0] != '\0' ? page_tables : "0", cpus);
    return 0;
}
