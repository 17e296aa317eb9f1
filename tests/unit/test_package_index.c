/* Sources of packages: options, or what pip on this host is configured with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/config/package_index.h"
#include "host/network/network.h"
#include "tests/support/cmocka.h"

static Options with(const char *index)
{
    return (Options){.package_index = strdup(index), .package_certificates = strdup("")};
}

static void forget(Options *options)
{
    free(options->package_index);
    free(options->package_certificates);
}

static void assert_hosts(const char *index, const char *hosts)
{
    Options options = with(index);
    char *found = package_index_hosts(&options);

    assert_string_equal(found, hosts);
    free(found);
    forget(&options);
}

TEST(test_hosts)
{
    assert_hosts("https://index.example/simple", "index.example:443");
    assert_hosts("http://127.0.0.1:8000/simple", "127.0.0.1:8000");
    assert_hosts("https://me:secret@index.example/simple,  https://files.example",
                 "index.example:443,files.example:443");
    assert_hosts("http://[::1]:80/x http://[::1]/y", "[::1]:80,[::1]:80");
}

TEST(test_the_first_is_the_index)
{
    Options options = with(" https://a/simple https://b");
    IndexUrl url = package_index_url(&options);

    assert_int_equal(url.size, strlen("https://a/simple"));
    assert_memory_equal(url.text, "https://a/simple", url.size);
    forget(&options);
}

TEST(test_what_is_no_url)
{
    Options options = with("index.example/simple");
    Problem problem = PROBLEM_NULL;

    assert_true(package_index_settle(&options, &problem) < 0);
    assert_non_null(strstr(problem.text, "package_index"));
    forget(&options);
}

TEST(test_of_pip)
{
    char path[] = "/tmp/limpet-pip-XXXXXX";
    Options options = with("");
    Problem problem = PROBLEM_NULL;
    FILE *file = fdopen(mkstemp(path), "w");

    fputs("[global]\nindex-url = https://mirror.example/simple\ncert = /some/ca.pem\n[list]\nindex-url = "
          "https://other\n",
          file);
    fclose(file);
    unsetenv("PIP_INDEX_URL");
    unsetenv("PIP_CERT");
    setenv("PIP_CONFIG_FILE", path, 1);
    assert_int_equal(package_index_settle(&options, &problem), 0);
    assert_string_equal(options.package_index, "https://mirror.example/simple");
    assert_string_equal(options.package_certificates, "/some/ca.pem");
    forget(&options);
    options = with("");
    setenv("PIP_INDEX_URL", "https://first.example/simple", 1);
    assert_int_equal(package_index_settle(&options, &problem), 0);
    assert_string_equal(options.package_index, "https://first.example/simple");
    forget(&options);
    unlink(path);
}

/* An index may be in a private network; that of a machine itself has to be named as it is. */
TEST(test_addresses)
{
    Network usual = {0}, trusted = {.anywhere = true};
    IpAddress private, local;

    assert_true(ip_parse(&private, "10.1.2.3") && ip_parse(&local, "127.0.0.1"));
    assert_false(network_allows_address(&usual, &private, 443, false));
    assert_true(network_allows_address(&trusted, &private, 443, false));
    assert_false(network_allows_address(&trusted, &private, 443, true));
    assert_false(network_allows_address(&trusted, &local, 443, false));
}
