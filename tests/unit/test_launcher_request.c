/* Requests that the launcher takes from a controller that somebody else speaks for. */
#include <errno.h>

#include "host/launcher/request.h"
#include "tests/support/cmocka.h"

static const LauncherRequestRules rules = {.owner = "0123abcd", .allow_network = "host"};
static LauncherRequest request;

static int read_as(LauncherKind kind, const Schema *schema, const void *body)
{
    Buf bytes _cleanup_(buf_deinit) = BUF_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (message_append(&bytes, (MessageKind)kind, 0, schema, body) < 0 ||
        message_decode(&message, buf_head(&bytes), bytes.size, &problem) < 0)
        return -ENOMSG;
    return launcher_request_read(&request, &message, &rules);
}

static LauncherMsgContainer container(void)
{
    return (LauncherMsgContainer){
        .container = text_of("limpet-0123abcd-0123456789abcdef"),
        .session = text_of("a"),
        .directory = text_of("a"),
        .link = text_of("0123456789ab"),
        .image = text_of("data:1.0"),
        .network = text_of("none"),
        .memory = MEMORY_MINIMUM,
        .pids = PIDS_MINIMUM,
        .cpus = 1,
    };
}

static int read_container(const LauncherMsgContainer *body)
{
    return read_as(LAUNCHER_CREATE, SCHEMA(LauncherMsgContainer), body);
}

TEST(test_what_an_honest_controller_asks)
{
    LauncherMsgContainer body = container();

    assert_int_equal(read_container(&body), 0);
    assert_string_equal(request.container, "limpet-0123abcd-0123456789abcdef");
    assert_int_equal(launcher_request_descriptors(&request), 0);
    body.data = true;
    body.network = text_of("host");
    assert_int_equal(read_container(&body), 0);
    assert_int_equal(launcher_request_descriptors(&request), 1);
}

#define PACKAGES "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static int read_packages(const char *container_name, const char *packages)
{
    const LauncherMsgPackages body = {.container = text_of(container_name), .packages = text_of(packages)};

    return read_as(LAUNCHER_PACKAGES, SCHEMA(LauncherMsgPackages), &body);
}

/* A set is named by digits, and nothing else leads to one. */
TEST(test_packages)
{
    static const char *const bad[] = {
        "",
        ".",
        "..",
        "/",
        "../" PACKAGES,
        "00",
        "0" PACKAGES,
        "0011223344556677/899aabbccddeeff00112233445566778899aabbccddeeff0",
        "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff",
    };
    const char *name = "limpet-0123abcd-0123456789abcdef";

    assert_int_equal(read_packages(name, PACKAGES), 0);
    assert_string_equal(request.packages, PACKAGES);
    assert_int_equal(launcher_request_descriptors(&request), 1);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_not_equal(read_packages(name, bad[i]), 0);
    assert_int_not_equal(read_packages("limpet-ffffffff-0123456789abcdef", PACKAGES), 0);
}

#define REFUSES(member, value)                                                                               \
    do {                                                                                                     \
        LauncherMsgContainer refused = container();                                                          \
        refused.member = value;                                                                              \
        assert_int_equal(read_container(&refused), -EBADMSG);                                                \
    } while (0)

TEST(test_names_lead_nowhere_else)
{
    static const char *const names[] = {"", ".", "..", "../b", "a/b", "/etc", ".limpet", "a\nb", "\xc3\xa9"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        REFUSES(directory, text_of(names[i]));
        REFUSES(link, text_of(names[i]));
    }
    REFUSES(directory, ((Text){"a\0b", 3}));
    REFUSES(image, text_of("../../etc;x"));
    REFUSES(session, text_of("a\033[2J"));
}

TEST(test_containers_of_others_are_not_named)
{
    REFUSES(container, text_of("limpet-ffffffff-0123456789abcdef"));
    REFUSES(container, text_of("limpet-0123abcd-0123456789abcde"));
    REFUSES(container, text_of("limpet-0123abcd-../../../../../x"));
    REFUSES(container, text_of("postgres"));
}

TEST(test_numbers_have_bounds)
{
    REFUSES(memory, MEMORY_MINIMUM - 1);
    REFUSES(memory, UINT64_MAX - 1);
    REFUSES(pids, 0);
    REFUSES(pids, UINT64_C(1) << 40);
    REFUSES(cpus, 0.0);
    REFUSES(cpus, -1.0);
    REFUSES(cpus, 1e9);
    REFUSES(largest_file, UINT64_C(1) << 62);
}

TEST(test_networks_are_those_of_the_configuration)
{
    LauncherMsgContainer body = container();

    REFUSES(network, text_of("bridge"));
    REFUSES(network, text_of("hos"));
    REFUSES(network, text_of(""));
    body.network = text_of("bridge"); /* of an earlier configuration */
    assert_int_equal(read_as(LAUNCHER_ADOPT, SCHEMA(LauncherMsgContainer), &body), 0);
}

TEST(test_disks_have_bounds)
{
    LauncherMsgDisk disk = {.directory = text_of("a"), .bytes = DISK_MINIMUM, .files = FILES_MINIMUM};

    assert_int_equal(read_as(LAUNCHER_DISK, SCHEMA(LauncherMsgDisk), &disk), 0);
    disk.bytes = DISK_MAXIMUM + 1;
    assert_int_equal(read_as(LAUNCHER_DISK, SCHEMA(LauncherMsgDisk), &disk), -EBADMSG);
    disk.bytes = DISK_MINIMUM;
    disk.files = 0;
    assert_int_equal(read_as(LAUNCHER_DISK, SCHEMA(LauncherMsgDisk), &disk), -EBADMSG);
}

TEST(test_disks_are_those_of_sessions)
{
    static const LauncherKind kinds[] = {LAUNCHER_MOUNT, LAUNCHER_DETACH};
    static const char *const names[] = {"", ".", "..", ".hidden", "a/b", "/etc", "\x1b"};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        LauncherMsgDirectory directory = {.directory = text_of("a")};

        assert_int_equal(read_as(kinds[i], SCHEMA(LauncherMsgDirectory), &directory), 0);
        for (size_t j = 0; j < ARRAY_SIZE(names); j++) {
            directory.directory = text_of(names[j]);
            assert_int_equal(read_as(kinds[i], SCHEMA(LauncherMsgDirectory), &directory), -EBADMSG);
        }
    }
}

TEST(test_other_messages_and_bodies)
{
    LauncherMsgContainer body = container();
    LauncherMsgNothing nothing = {0};
    LauncherMsgOpen relative = {.user = 1000, .path = text_of("etc")};

    assert_int_equal(read_as(LAUNCHER_NONE, SCHEMA(LauncherMsgNothing), &nothing), -EBADMSG);
    assert_int_equal(read_as(LAUNCHER_STARTED, SCHEMA(LauncherMsgNothing), &nothing), -EBADMSG);
    assert_int_equal(read_as((LauncherKind)77, SCHEMA(LauncherMsgNothing), &nothing), -EBADMSG);
    assert_int_equal(read_as(LAUNCHER_CREATE, SCHEMA(LauncherMsgNothing), &nothing), -EBADMSG);
    assert_int_equal(read_as(LAUNCHER_REMOVE, SCHEMA(LauncherMsgContainer), &body),
                     -EBADMSG); /* options beside the set */
    assert_int_equal(read_as(LAUNCHER_OPEN, SCHEMA(LauncherMsgOpen), &relative), -EBADMSG);
}
