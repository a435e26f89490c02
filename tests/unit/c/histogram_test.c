/* histogram_test.c: percentiles stay within the promised error, and four threads that record at once lose nothing. */
#include <pthread.h>

#include "../../../csrc/base/histogram.h"
#include "check.h"

#define THREADS 4
#define PER_THREAD 50000u

static void an_empty_histogram_answers_zero(void) {
    rp_histogram *histogram = rp_histogram_create();
    CHECK(histogram != NULL);
    CHECK(rp_histogram_count(histogram) == 0);
    CHECK(rp_histogram_min(histogram) == 0);
    CHECK(rp_histogram_max(histogram) == 0);
    CHECK(rp_histogram_percentile(histogram, 99.0) == 0);
    rp_histogram_destroy(histogram);
}

static void one_value_is_every_percentile_and_reads_back_exactly_at_all_magnitudes(void) {
    for (int shift = 0; shift < 64; shift++) {
        for (int nudge = -1; nudge <= 1; nudge++) {
            uint64_t value = (UINT64_C(1) << shift) + (uint64_t)(int64_t)nudge;
            rp_histogram *histogram = rp_histogram_create();
            rp_histogram_record(histogram, value);
            CHECK(rp_histogram_min(histogram) == value);
            CHECK(rp_histogram_max(histogram) == value);
            CHECK(rp_histogram_percentile(histogram, 0.0) == value);
            CHECK(rp_histogram_percentile(histogram, 50.0) == value);
            CHECK(rp_histogram_percentile(histogram, 100.0) == value);
            rp_histogram_destroy(histogram);
        }
    }
    rp_histogram *histogram = rp_histogram_create();
    rp_histogram_record(histogram, UINT64_MAX);
    CHECK(rp_histogram_min(histogram) == UINT64_MAX);
    CHECK(rp_histogram_max(histogram) == UINT64_MAX);
    rp_histogram_destroy(histogram);
}

static void percentiles_of_a_ramp_are_within_the_promised_error(void) {
    rp_histogram *histogram = rp_histogram_create();
    const uint64_t top = 1000000;
    for (uint64_t value = 1; value <= top; value++)
        rp_histogram_record(histogram, value);
    CHECK(rp_histogram_count(histogram) == top);
    CHECK(rp_histogram_mean(histogram) == (double)(top + 1) / 2.0);
    const double percents[] = {1, 10, 50, 90, 99, 99.9, 99.99};
    for (unsigned i = 0; i < sizeof percents / sizeof *percents; i++) {
        double exact = percents[i] / 100.0 * (double)top;
        double answer = (double)rp_histogram_percentile(histogram, percents[i]);
        CHECK(answer >= exact - 1.0);
        CHECK(answer <= exact * 1.032 + 1.0);
    }
    rp_histogram_destroy(histogram);
}

static void adding_is_recording_both(void) {
    rp_histogram *left = rp_histogram_create();
    rp_histogram *right = rp_histogram_create();
    rp_histogram_record_count(left, 10, 3);
    rp_histogram_record_count(right, 1000, 1);
    rp_histogram_add(left, right);
    CHECK(rp_histogram_count(left) == 4);
    CHECK(rp_histogram_min(left) == 10);
    CHECK(rp_histogram_max(left) == 1000);
    CHECK(rp_histogram_percentile(left, 75.0) == 10);
    CHECK(rp_histogram_percentile(left, 76.0) == 1000);
    rp_histogram_destroy(left);
    rp_histogram_destroy(right);
}

/* 99.9 / 100 * 1000 is a little more than 999. */
static void a_percentile_that_ends_at_a_value_is_that_value(void) {
    rp_histogram *histogram = rp_histogram_create();
    rp_histogram_record_count(histogram, 10, 999);
    rp_histogram_record(histogram, 1000);
    CHECK(rp_histogram_percentile(histogram, 99.9) == 10);
    CHECK(rp_histogram_percentile(histogram, 99.91) == 1000);
    rp_histogram_record_count(histogram, 10, 8991);
    rp_histogram_record_count(histogram, 1000, 9);
    CHECK(rp_histogram_percentile(histogram, 99.9) == 10);
    CHECK(rp_histogram_percentile(histogram, 100.0) == 1000);
    rp_histogram_destroy(histogram);
}

static void *record_many(void *argument) {
    for (uint64_t value = 1; value <= PER_THREAD; value++)
        rp_histogram_record(argument, value);
    return NULL;
}

static void threads_recording_at_once_lose_nothing(void) {
    rp_histogram *histogram = rp_histogram_create();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, record_many, histogram) == 0);
    CHECK(rp_histogram_percentile(histogram, 100.0) <= PER_THREAD); /* reading meanwhile is allowed */
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(rp_histogram_count(histogram) == THREADS * PER_THREAD);
    CHECK(rp_histogram_mean(histogram) == (PER_THREAD + 1) / 2.0);
    CHECK(rp_histogram_max(histogram) == PER_THREAD);
    CHECK(rp_histogram_min(histogram) == 1);
    rp_histogram_destroy(histogram);
}

int main(void) {
    RUN(an_empty_histogram_answers_zero);
    RUN(one_value_is_every_percentile_and_reads_back_exactly_at_all_magnitudes);
    RUN(percentiles_of_a_ramp_are_within_the_promised_error);
    RUN(adding_is_recording_both);
    RUN(a_percentile_that_ends_at_a_value_is_that_value);
    RUN(threads_recording_at_once_lose_nothing);
    return 0;
}
