"""Hosts are compared strictly, and addresses after they were resolved."""

from __future__ import annotations

import pytest

from holdfast.tools.sandbox.egress import EgressRefused, check_address, check_host, parse


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("a.org", "a.org", 443, True),
        ("a.org", "a.org", 80, True),
        ("a.org", "a.org", 22, False),
        ("a.org:22", "a.org", 22, True),
        ("a.org:22", "a.org", 443, False),
        ("a.org", "b.a.org", 443, False),
        ("a.org", "xa.org", 443, False),
        ("a.org", "a.org.evil.test", 443, False),
        ("*.a.org", "b.a.org", 443, True),
        ("*.a.org", "c.b.a.org", 443, True),
        ("*.a.org", "a.org", 443, False),
        ("*.a.org", "xa.org", 443, False),
    ],
)
def test_a_host_is_allowed_by_its_whole_name_and_port(
    entry: str, host: str, port: int, allowed: bool
) -> None:
    if allowed:
        check_host([entry], host, port)
    else:
        with pytest.raises(EgressRefused, match="is not allowed by the policy"):
            check_host([entry], host, port)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1"),
        *("255.255.255.255", "192.0.0.192", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1"),
        *("fd00:ec2::254", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe"),
        *("2002:7f00:1::", "2002:a9fe:a9fe::1", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1"),
        *("::127.0.0.1", "64:ff9b:1::1", "2001::a9fe:a9fe"),
    ],
)
def test_an_address_that_is_not_on_the_internet_is_refused(address: str) -> None:
    with pytest.raises(EgressRefused, match="not on the internet"):
        check_address("a.org", address)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:4700::1", "64:ff9b::5db8:d70e"])
def test_a_public_address_is_not_refused(address: str) -> None:
    check_address("a.org", address)


@pytest.mark.parametrize(
    "line",
    [
        *("CONNECT 127.0.0.1:443", "CONNECT 2130706433:443", "CONNECT 0x7f.1:443"),
        *("CONNECT [::1]:443", "CONNECT a.org", "CONNECT a.org:0", "CONNECT a.org:99999"),
        *("CONNECT a.org:443:1", "CONNECT :443", "CONNECT a_b\u00e9.org:443", "CONNECT a..b:443"),
        *("CONNECT a\0.org:443", "CONNECT a.org\t:443", "GET /path", "GET https://a.org/"),
        *("GET http://user@a.org/", "GET http://127.0.0.1/", "GET http://[::1]/", "GET file:///x"),
        *("GET http://a.org:99999/", "get http://a.org/", "GET  http://a.org/"),
    ],
)
def test_a_request_that_is_not_for_a_named_host_is_refused(line: str) -> None:
    with pytest.raises(EgressRefused):
        parse(f"{line} HTTP/1.1\r\n\r\n".encode())


def test_a_tunnel_is_for_a_host_and_a_port() -> None:
    request = parse(b"CONNECT A.Org.:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    assert (request.host, request.port, request.head) == ("a.org", 443, None)


def test_a_plain_request_is_sent_on_to_the_host_that_was_checked() -> None:
    request = parse(
        b"GET http://a.org:8080/x?y=1 HTTP/1.1\r\nHost: evil.test\r\nAccept: */*\r\n"
        b"Proxy-Authorization: x\r\nConnection: keep-alive\r\n\r\n"
    )
    assert (request.host, request.port) == ("a.org", 8080)
    assert request.head == (
        b"GET /x?y=1 HTTP/1.1\r\nHost: a.org:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
