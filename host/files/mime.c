#include "host/files/mime.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *extension;
    const char *type;
} types[] = {
    {"arrow", "application/vnd.apache.arrow.file"},
    {"avi", "video/x-msvideo"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"h5", "application/x-hdf5"},
    {"hdf5", "application/x-hdf5"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ipynb", "application/x-ipynb+json"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"log", "text/plain"},
    {"md", "text/markdown"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"npy", "application/x-npy"},
    {"npz", "application/x-npz"},
    {"parquet", "application/vnd.apache.parquet"},
    {"pdf", "application/pdf"},
    {"pkl", "application/x-pickle"},
    {"png", "image/png"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"py", "text/x-python"},
    {"sqlite", "application/vnd.sqlite3"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tex", "text/x-tex"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"tsv", "text/tab-separated-values"},
    {"txt", "text/plain"},
    {"wav", "audio/wav"},
    {"webp", "image/webp"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

const char *mime_type(const char *name)
{
    const char *dot = strrchr(name, '.');

    if (dot)
        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
            if (strcasecmp(dot + 1, types[i].extension) == 0)
                return types[i].type;
    return "application/octet-stream";
}
