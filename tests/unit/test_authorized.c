#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "host/net/authorized.h"
#include "proto/certificate.h"
#include "tests/support/cmocka.h"

#define FIRST  "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
#define SECOND "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"

/* Keys from ZeroMQ's RFC 32. */
TEST(test_keys_are_what_zeromq_writes)
{
    static const uint8_t public_key[32] = {0xBB, 0x88, 0x47, 0x1D, 0x65, 0xE2, 0x65, 0x9B, 0x30, 0xC5, 0x5A,
                                           0x53, 0x21, 0xCE, 0xBB, 0x5A, 0xAB, 0x2B, 0x70, 0xA3, 0x98, 0x64,
                                           0x5C, 0x26, 0xDC, 0xA2, 0xB2, 0xFC, 0xB4, 0x3F, 0xC5, 0x18};
    char text[Z85_KEY_SIZE + 1];
    uint8_t key[32];

    z85_encode_key(text, public_key);
    assert_string_equal(text, SECOND);
    assert_true(z85_decode_key(key, text));
    assert_memory_equal(key, public_key, sizeof(key));
    assert_false(z85_decode_key(key, "#####" FIRST));
    assert_false(z85_decode_key(key, "too short"));
    assert_false(z85_decode_key(key, "0123456789 123456789012345678901234567890"));
}

TEST(test_lines_say_who_is_let_in)
{
    Authorized authorized _cleanup_(authorized_deinit) = {0};
    Problem problem = PROBLEM_NULL;
    const char *text = "# who\n\n" FIRST " owner=root name=laptop connections=2 # mine\r\n\t" SECOND
                       " sessions=3 memory=512m owner=77";

    assert_int_equal(authorized_parse(&authorized, text_of(text), &problem), 0);
    assert_int_equal(authorized.n, 2);
    assert_int_equal(authorized.keys[0].owner, 0);
    assert_string_equal(authorized.keys[0].name, "laptop");
    assert_int_equal(authorized.keys[0].connections, 2);
    assert_ptr_equal(authorized_find(&authorized, SECOND), authorized_of(&authorized, 77));
    assert_int_equal(authorized.keys[1].sessions, 3);
    assert_int_equal(authorized.keys[1].memory, 512u << 20);
    assert_int_equal(authorized.keys[1].connections, AUTHORIZED_CONNECTIONS);
    assert_null(authorized_find(&authorized, "other"));
    assert_null(authorized_of(&authorized, 78));
}

static void assert_refused(const char *text, const char *why)
{
    Authorized authorized = {0};
    Problem problem = PROBLEM_NULL;

    assert_true(authorized_parse(&authorized, text_of(text), &problem) < 0);
    assert_non_null(strstr(problem.text, why));
    assert_null(authorized.keys);
}

TEST(test_a_mistake_is_said_with_its_line)
{
    assert_refused(FIRST, "line 1: owner=USER is missing");
    assert_refused("\n" FIRST " owner=1\n" FIRST " owner=1", "line 3: the key is there already");
    assert_refused(FIRST " owner=1 sessions=1\n" SECOND " owner=1", "line 2: sessions and memory");
    assert_refused(FIRST " owner=1 connections=0", "connections cannot be '0'");
    assert_refused(FIRST " owner=4294967295", "owner cannot be");
    assert_refused(FIRST " owner=1 memory=much", "memory cannot be 'much'");
    assert_refused(FIRST " owner=1 name", "'name' is no name=value");
    assert_refused(FIRST " owner=1 colour=red", "there is no 'colour'");
    assert_refused(FIRST "x owner=1", "does not begin with a public key");
}

TEST(test_a_pair_of_keys_is_read_as_it_was_written)
{
    Certificate written = {FIRST, SECOND}, read;
    int fd _cleanup_(closep) = memfd_create("keys", MFD_CLOEXEC);

    assert_int_equal(certificate_read(&read, fd), -ENODATA);
    assert_int_equal(certificate_write(&written, fd), 0);
    assert_int_equal(certificate_read(&read, fd), 0);
    assert_string_equal(read.public_key, FIRST);
    assert_string_equal(read.secret_key, SECOND);
    assert_int_equal(ftruncate(fd, 150), 0);
    assert_int_equal(certificate_read(&read, fd), -EBADMSG);
}
