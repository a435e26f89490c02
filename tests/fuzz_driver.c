/* fuzz_driver.c: replaces libFuzzer where there is no clang: mutates seeds at random and calls the fuzz target.
 * Does not use coverage, so it reaches less; what it reaches, the sanitizers check as well.
 * usage: program seed seconds [corpus directory]... */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INPUT_MAX 65536
#define SEEDS_MAX 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct seed_input {
    uint8_t *data;
    size_t size;
} seed_input;

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int load_directory(const char *path, seed_input *seeds, int count) {
    DIR *directory = opendir(path);
    if (directory == NULL)
        return count;
    for (struct dirent *entry = readdir(directory); entry != NULL && count < SEEDS_MAX; entry = readdir(directory)) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(name, "rb");
        if (file == NULL)
            continue;
        uint8_t *data = malloc(INPUT_MAX);
        if (data != NULL)
            seeds[count++] = (seed_input){data, fread(data, 1, INPUT_MAX, file)};
        fclose(file);
    }
    closedir(directory);
    return count;
}

static size_t mutate(uint8_t *data, size_t size, uint64_t *state) {
    static const uint32_t edges[] = {0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    for (uint64_t rounds = 1 + next_random(state) % 8; rounds > 0; rounds--) {
        uint64_t kind = next_random(state) % 5;
        size_t at = size == 0 ? 0 : next_random(state) % size;
        if (kind == 0 && size > 0)
            data[at] = (uint8_t)next_random(state);
        else if (kind == 1 && size > 0)
            data[at] ^= (uint8_t)(1u << (next_random(state) & 7));
        else if (kind == 2 && size >= 4) {
            uint32_t edge = __builtin_bswap32(edges[next_random(state) % (sizeof edges / sizeof *edges)]);
            memcpy(data + (at > size - 4 ? size - 4 : at), &edge, 4);
        } else if (kind == 3)
            size = at;
        else if (size + 16 <= INPUT_MAX) {
            memmove(data + at + 16, data + at, size - at);
            for (int i = 0; i < 16; i++)
                data[at + (size_t)i] = (uint8_t)next_random(state);
            size += 16;
        }
    }
    return size;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    uint64_t state = strtoull(argv[1], NULL, 10) * UINT64_C(0x9E3779B97F4A7C15) | 1;
    time_t end = time(NULL) + strtol(argv[2], NULL, 10);
    seed_input *seeds = calloc(SEEDS_MAX, sizeof *seeds);
    if (seeds == NULL)
        return 2;
    int count = 0;
    for (int i = 3; i < argc; i++)
        count = load_directory(argv[i], seeds, count);
    uint8_t *work = malloc(INPUT_MAX);
    uint64_t runs = 0;
    for (; work != NULL && time(NULL) < end; runs++) {
        size_t size = 0;
        if (count > 0 && next_random(&state) % 16 != 0) {
            const seed_input *seed = &seeds[next_random(&state) % (uint64_t)count];
            memcpy(work, seed->data, seed->size);
            size = seed->size;
        }
        size = mutate(work, size, &state);
        uint8_t *exact = malloc(size + (size == 0)); /* a block of the exact size, so that reading one byte too far is detected */
        if (exact == NULL)
            break;
        memcpy(exact, work, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    printf("%llu runs from %d seeds\n", (unsigned long long)runs, count);
    for (int i = 0; i < count; i++)
        free(seeds[i].data);
    free(seeds);
    free(work);
    return 0;
}
