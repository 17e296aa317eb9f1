/* Demands that the launcher takes from a controller that somebody else speaks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "host/launcher/demand.h"

static const DemandRules rules = {.owner = "0123abcd", .allow_network = "host"};
static Demand demand;

static int read_as(SeamKind kind, const Schema *schema, const void *body)
{
    Buf bytes _cleanup_(buf_deinit) = BUF_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (message_append(&bytes, (MessageKind)kind, 0, schema, body) < 0 ||
        message_decode(&message, buf_head(&bytes), bytes.size, &problem) < 0)
        return -ENOMSG;
    return demand_read(&demand, &message, &rules);
}

static SeamContainer container(void)
{
    return (SeamContainer){
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

static int read_container(const SeamContainer *body)
{
    return read_as(SEAM_CREATE, SCHEMA(SeamContainer), body);
}

static void test_what_an_honest_controller_asks(void **state)
{
    SeamContainer body = container();

    assert_int_equal(read_container(&body), 0);
    assert_string_equal(demand.container, "limpet-0123abcd-0123456789abcdef");
    assert_int_equal(demand_descriptors(&demand), 0);
    body.data = true;
    body.network = text_of("host");
    assert_int_equal(read_container(&body), 0);
    assert_int_equal(demand_descriptors(&demand), 1);
}

#define PACKAGES "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static int read_packages(const char *container_name, const char *packages)
{
    const SeamPackages body = {.container = text_of(container_name), .packages = text_of(packages)};

    return read_as(SEAM_PACKAGES, SCHEMA(SeamPackages), &body);
}

/* A set is named by digits, and nothing else leads to one. */
static void test_packages(void **state)
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
    assert_string_equal(demand.packages, PACKAGES);
    assert_int_equal(demand_descriptors(&demand), 1);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_not_equal(read_packages(name, bad[i]), 0);
    assert_int_not_equal(read_packages("limpet-ffffffff-0123456789abcdef", PACKAGES), 0);
}

#define REFUSES(member, value)                                                                               \
    do {                                                                                                     \
        SeamContainer refused = container();                                                                 \
        refused.member = value;                                                                              \
        assert_int_equal(read_container(&refused), -EBADMSG);                                                \
    } while (0)

static void test_names_lead_nowhere_else(void **state)
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

static void test_containers_of_others_are_not_named(void **state)
{
    REFUSES(container, text_of("limpet-ffffffff-0123456789abcdef"));
    REFUSES(container, text_of("limpet-0123abcd-0123456789abcde"));
    REFUSES(container, text_of("limpet-0123abcd-../../../../../x"));
    REFUSES(container, text_of("postgres"));
}

static void test_numbers_have_bounds(void **state)
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

static void test_networks_are_those_of_the_configuration(void **state)
{
    SeamContainer body = container();

    REFUSES(network, text_of("bridge"));
    REFUSES(network, text_of("hos"));
    REFUSES(network, text_of(""));
    body.network = text_of("bridge"); /* of an earlier configuration */
    assert_int_equal(read_as(SEAM_ADOPT, SCHEMA(SeamContainer), &body), 0);
}

static void test_disks_have_bounds(void **state)
{
    SeamDisk disk = {.directory = text_of("a"), .bytes = DISK_MINIMUM, .files = FILES_MINIMUM};

    assert_int_equal(read_as(SEAM_DISK, SCHEMA(SeamDisk), &disk), 0);
    disk.bytes = DISK_MAXIMUM + 1;
    assert_int_equal(read_as(SEAM_DISK, SCHEMA(SeamDisk), &disk), -EBADMSG);
    disk.bytes = DISK_MINIMUM;
    disk.files = 0;
    assert_int_equal(read_as(SEAM_DISK, SCHEMA(SeamDisk), &disk), -EBADMSG);
}

static void test_disks_are_those_of_sessions(void **state)
{
    static const SeamKind kinds[] = {SEAM_MOUNT, SEAM_DETACH};
    static const char *const names[] = {"", ".", "..", ".hidden", "a/b", "/etc", "\x1b"};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        SeamDirectory directory = {.directory = text_of("a")};

        assert_int_equal(read_as(kinds[i], SCHEMA(SeamDirectory), &directory), 0);
        for (size_t j = 0; j < ARRAY_SIZE(names); j++) {
            directory.directory = text_of(names[j]);
            assert_int_equal(read_as(kinds[i], SCHEMA(SeamDirectory), &directory), -EBADMSG);
        }
    }
}

static void test_other_messages_and_bodies(void **state)
{
    SeamContainer body = container();
    SeamNothing nothing = {0};
    SeamOpen relative = {.user = 1000, .path = text_of("etc")};

    assert_int_equal(read_as(SEAM_NONE, SCHEMA(SeamNothing), &nothing), -EBADMSG);
    assert_int_equal(read_as(SEAM_STARTED, SCHEMA(SeamNothing), &nothing), -EBADMSG);
    assert_int_equal(read_as((SeamKind)77, SCHEMA(SeamNothing), &nothing), -EBADMSG);
    assert_int_equal(read_as(SEAM_CREATE, SCHEMA(SeamNothing), &nothing), -EBADMSG);
    assert_int_equal(read_as(SEAM_REMOVE, SCHEMA(SeamContainer), &body),
                     -EBADMSG); /* options beside the set */
    assert_int_equal(read_as(SEAM_OPEN, SCHEMA(SeamOpen), &relative), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_an_honest_controller_asks),
        cmocka_unit_test(test_packages),
        cmocka_unit_test(test_names_lead_nowhere_else),
        cmocka_unit_test(test_containers_of_others_are_not_named),
        cmocka_unit_test(test_numbers_have_bounds),
        cmocka_unit_test(test_networks_are_those_of_the_configuration),
        cmocka_unit_test(test_disks_have_bounds),
        cmocka_unit_test(test_disks_are_those_of_sessions),
        cmocka_unit_test(test_other_messages_and_bodies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
