/* Random file operations against a model of what has to be reported. A seed can be given as the first
 * argument. */
#include "tests/support/artifacts_fixture.h"

#include <time.h>

#define NAMES 3 /* in a directory: a, b, c */
#define DEPTH 3
#define PATHS (3 + 9 + 27)
#define STEPS 1500

typedef enum Kind {
    NONE,
    DIRECTORY,
    REGULAR,
    LINK,
} Kind;

typedef struct Inode {
    unsigned id;
    unsigned version;
    unsigned names;
    char text[64];
} Inode;

typedef struct Node {
    Kind kind;
    Inode *inode; /* of REGULAR and LINK */
    struct Node *children[NAMES];
} Node;

typedef struct Reported {
    unsigned id, version;
    Kind kind;
} Reported;

typedef struct Model {
    Fixture *f;
    Node *root;
    Node *outside; /* its children are outside/a, b, c */
    Reported reported[PATHS];
    unsigned counter;
    uint64_t random;
    bool events; /* and not scans */
    bool settle; /* the step ends here */
} Model;

/* A place in the model and in the file system: a path below one of the two directories. */
typedef struct Spot {
    Node *parent;
    int index;
    int dirfd;
    char path[16];
} Spot;

static unsigned pick(Model *m, unsigned n)
{
    m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(m->random >> 33) % n;
}

static void node_free(Node *node)
{
    if (!node)
        return;
    for (int i = 0; i < NAMES; i++)
        node_free(node->children[i]);
    if (node->inode && --node->inode->names == 0)
        free(node->inode);
    free(node);
}

static Node *node_new(Model *m, Kind kind, Inode *inode)
{
    Node *node = calloc(1, sizeof(*node));

    node->kind = kind;
    if (kind != DIRECTORY && !inode) {
        inode = calloc(1, sizeof(*inode));
        inode->id = ++m->counter;
    }
    node->inode = inode;
    if (inode)
        inode->names++;
    return node;
}

static Node **at(const Spot *spot)
{
    return &spot->parent->children[spot->index];
}

static Kind kind_at(const Spot *spot)
{
    return *at(spot) ? (*at(spot))->kind : NONE;
}

/* A random place whose parent exists. */
static Spot random_spot(Model *m)
{
    bool outside = pick(m, 8) == 0;
    Spot spot = {.parent = outside ? m->outside : m->root, .dirfd = outside ? m->f->outside : m->f->root};

    for (int depth = 1;; depth++) {
        spot.index = (int)pick(m, NAMES);
        size_t n = strlen(spot.path);
        snprintf(spot.path + n, sizeof(spot.path) - n, "%s%c", n ? "/" : "", 'a' + spot.index);
        if (outside || depth == DEPTH || kind_at(&spot) != DIRECTORY || pick(m, 3) == 0)
            return spot;
        spot.parent = *at(&spot);
    }
}

static void changed(Model *m, Inode *inode, Spot *spot, int flags)
{
    inode->version = ++m->counter;
    int fd = openat(spot->dirfd, spot->path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    assert_true(fd >= 0);
    snprintf(inode->text, sizeof(inode->text), "version %08u", m->counter);
    if (pick(m, 2))
        assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(write(fd, inode->text, strlen(inode->text)), strlen(inode->text));
    close(fd);
}

static void op_write(Model *m)
{
    Spot spot = random_spot(m);

    if (kind_at(&spot) == NONE)
        *at(&spot) = node_new(m, REGULAR, NULL);
    if (kind_at(&spot) == REGULAR)
        changed(m, (*at(&spot))->inode, &spot, O_NOFOLLOW);
}

static void op_touch(Model *m)
{
    Spot spot = random_spot(m);
    struct timespec when = {.tv_sec = 1000000 + m->counter};

    if (kind_at(&spot) != REGULAR)
        return;
    (*at(&spot))->inode->version = ++m->counter;
    assert_int_equal(utimensat(spot.dirfd, spot.path, (struct timespec[]){when, when}, 0), 0);
}

static void op_chmod(Model *m)
{
    Spot spot = random_spot(m);

    if (kind_at(&spot) == REGULAR)
        assert_int_equal(fchmodat(spot.dirfd, spot.path, pick(m, 2) ? 0644 : 0600, 0), 0);
}

static void op_remove(Model *m)
{
    Spot spot = random_spot(m);
    char *slash = strrchr(spot.path, '/');
    int parent = spot.dirfd;

    if (slash) {
        *slash = '\0';
        parent = openat(spot.dirfd, spot.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    assert_int_equal(remove_tree(parent, slash ? slash + 1 : spot.path, NULL), 0);
    if (slash)
        close(parent);
    node_free(*at(&spot));
    *at(&spot) = NULL;
}

static void op_mkdir(Model *m)
{
    Spot spot = random_spot(m);

    if (kind_at(&spot) != NONE)
        return;
    assert_int_equal(mkdirat(spot.dirfd, spot.path, 0755), 0);
    *at(&spot) = node_new(m, DIRECTORY, NULL);
}

static void op_symlink(Model *m)
{
    Spot spot = random_spot(m);

    if (kind_at(&spot) != NONE)
        return;
    assert_int_equal(symlinkat("/etc/passwd", spot.dirfd, spot.path), 0);
    *at(&spot) = node_new(m, LINK, NULL);
}

static void op_link(Model *m)
{
    Spot from = random_spot(m), to = random_spot(m);

    if (kind_at(&from) != REGULAR || kind_at(&to) != NONE)
        return;
    if (m->events && from.dirfd == m->f->root && to.dirfd == m->f->outside)
        return; /* no event tells of that, see artifacts.h */
    assert_int_equal(linkat(from.dirfd, from.path, to.dirfd, to.path, 0), 0);
    *at(&to) = node_new(m, REGULAR, (*at(&from))->inode);
    m->settle = m->events; /* nor of a write by a name that is gone when we look */
}

/* Levels of a tree: 1 for a file or an empty directory. */
static int height(const Node *node)
{
    int most = 0;

    if (!node)
        return 0;
    for (int i = 0; i < NAMES; i++)
        most = MAX(most, height(node->children[i]));
    return most + 1;
}

static bool fits(const Spot *spot, const Node *node)
{
    int depth = (int)strlen(spot->path) / 2 + 1;

    return depth + height(node) - 1 <= DEPTH;
}

static void op_rename(Model *m)
{
    Spot from = random_spot(m), to = random_spot(m);
    bool exchange = pick(m, 4) == 0;

    if (kind_at(&from) == NONE || (exchange && kind_at(&to) == NONE))
        return;
    if (!fits(&to, *at(&from)) || (exchange && !fits(&from, *at(&to))))
        return;
    if (renameat2(from.dirfd, from.path, to.dirfd, to.path, exchange ? RENAME_EXCHANGE : 0) < 0)
        return; /* into itself, or over what it may not replace */
    Node *moved = *at(&from), *other = *at(&to);
    if (moved == other || (!exchange && other && moved->inode && moved->inode == other->inode))
        return; /* two names of one file: rename does nothing */
    *at(&to) = moved;
    *at(&from) = exchange ? other : NULL;
    if (!exchange)
        node_free(other);
}

static void (*const operations[])(Model *) = {
    op_write,  op_write, op_write, op_write,   op_write, op_touch,  op_chmod,
    op_remove, op_mkdir, op_mkdir, op_symlink, op_link,  op_rename, op_rename,
};

static void check_contents(const Artifact *artifact, const Inode *inode)
{
    _cleanup_(freep) char *copy = read_file(artifact->host_path);

    assert_string_equal(copy, inode->text);
}

/* Compares one path of the model with the list; returns how many entries it accounts for. */
static size_t check_path(const ArtifactList *list, const char *path, const Node *node, Reported *reported)
{
    const Artifact *artifact = find(list, path);

    if (!node || node->kind == DIRECTORY) {
        *reported = (Reported){0};
        assert_null(artifact);
        return 0;
    }
    Reported now = {.id = node->inode->id, .version = node->inode->version, .kind = node->kind};
    bool expected = memcmp(&now, reported, sizeof(now)) != 0;
    /* A new link in the place of an old one may be the same to the kernel in every respect. */
    bool optional = now.kind == LINK && reported->kind == LINK;
    if (!optional && expected != (artifact != NULL))
        fail_msg("%s: expected %d, reported %d", path, expected, artifact != NULL);
    *reported = now;
    if (artifact && node->kind == REGULAR) {
        assert_null(artifact->skipped);
        check_contents(artifact, node->inode);
    }
    return artifact != NULL;
}

static size_t check_node(Model *m, const ArtifactList *list, const Node *node, const char *path,
                         unsigned first, unsigned level)
{
    size_t accounted = 0;

    for (unsigned i = 0; i < NAMES; i++) {
        const Node *child = node ? node->children[i] : NULL;
        unsigned number = first * NAMES + i;
        unsigned before = level == 0 ? 0 : level == 1 ? 3 : 12;
        char name[16];

        snprintf(name, sizeof(name), "%s%s%c", path, *path ? "/" : "", 'a' + i);
        accounted += check_path(list, name, child, &m->reported[before + number]);
        if (level + 1 < DEPTH)
            accounted += check_node(m, list, child, name, number, level + 1);
    }
    return accounted;
}

static uint64_t seed;

static void run_model(Fixture *f, bool events)
{
    Model m = {.f = f, .random = seed, .events = events};

    m.root = node_new(&m, DIRECTORY, NULL);
    m.outside = node_new(&m, DIRECTORY, NULL);
    for (int step = 0; step < STEPS; step++) {
        m.settle = false;
        for (unsigned n = pick(&m, 6); n > 0 && !m.settle; n--)
            operations[pick(&m, ARRAY_SIZE(operations))](&m);
        ArtifactList *list = publish(f);
        assert_false(list->incomplete);
        assert_int_equal(check_node(&m, list, m.root, "", 0, 0), list->n);
    }
    node_free(m.root);
    node_free(m.outside);
}

TEST_WITH(test_with_events, fixture_setup, fixture_teardown)
{
    run_model(*state, true);
}

TEST_WITH(test_with_scans, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    ArtifactLimits limits = artifact_limits_default;

    limits.finder.directories = 0;
    fixture_watch(f, &limits);
    run_model(f, false);
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    return tests_run(NULL, NULL);
}
