"""Attempts to leave a sandbox. Each prints ESCAPED, or a secret, if it has succeeded.

`SHELL` is for `sh`, `PYTHON` for the machine's python3, with `PRELUDE` before it.
"""

from __future__ import annotations

from typing import Final

SHELL: Final[dict[str, str]] = {
    "write_outside": 'echo x > "$OUTSIDE/new" && echo ESCAPED',
    "overwrite_outside": 'echo x >> "$OUTSIDE/public" && echo ESCAPED',
    "read_outside": 'cat "$OUTSIDE/public"',
    "read_a_private_file": 'cat "$OUTSIDE/secret"',
    "read_password_hashes": "test -s /etc/shadow && cat /etc/shadow && echo ESCAPED",
    "list_the_home_of_root": "ls ~root/. && echo ESCAPED",
    "change_the_mode_of_a_file_outside": 'chmod 777 "$OUTSIDE/secret" && echo ESCAPED',
    "change_the_time_of_a_file_outside": 'touch -d 2001-01-01 "$OUTSIDE/public" && echo ESCAPED',
    "write_through_a_link": 'ln -s "$OUTSIDE" l; cat l/public; echo x > l/new && echo ESCAPED',
    "write_through_a_dangling_link": 'ln -s "$OUTSIDE/new" d; echo x > d && echo ESCAPED',
    "hard_link_from_outside": 'ln "$OUTSIDE/public" h && cat h && echo ESCAPED',
    "rename_to_the_outside": 'touch m; mv m "$OUTSIDE/m" && echo ESCAPED',
    "rename_from_outside": 'mv "$OUTSIDE/public" m && echo ESCAPED',
    "delete_outside": 'rm -f "$OUTSIDE/public" "$OUTSIDE/secret"; ls "$OUTSIDE/" && echo ESCAPED',
    "write_to_the_parent": "touch ../neighbour && touch /neighbour && echo ESCAPED",
    "write_to_the_system": "touch /usr/bin/x || touch /etc/x || touch /lib/x && echo ESCAPED",
    "replace_a_program": "mv /usr/bin/env /usr/bin/env2 && echo ESCAPED",
    "remount": "mount -o remount,rw,bind /usr && echo ESCAPED",
    "bind_mount": "mount --bind /usr . && echo ESCAPED",
    "mount_a_file_system": "mount -t tmpfs none . && echo ESCAPED",
    "unmount": "umount -l /proc && echo ESCAPED; umount -l /usr && echo ESCAPED",
    "change_the_root": "chroot / true && echo ESCAPED",
    "new_user_namespace": "unshare -U true && echo ESCAPED; unshare -rm true && echo ESCAPED",
    "enter_the_namespaces_of_process_1": "nsenter -t 1 -m true && echo ESCAPED",
    "environment_of_a_process": 'cat "/proc/$VICTIM/environ"',
    "files_of_a_process": 'cat "/proc/$VICTIM/root$OUTSIDE/public"; ls "/proc/$VICTIM/cwd/"',
    "environment_of_every_process": "cat /proc/[0-9]*/environ | tr '\\0' '\\n'",
    "descriptors_of_every_process": "cat /proc/[0-9]*/fd/*/public /proc/[0-9]*/fd/*/../public",
    "kill_a_process": 'kill -9 "$VICTIM" && echo ESCAPED',
    "stop_every_process": "kill -STOP -1; true",
    "set_a_kernel_setting": "echo x > /proc/sys/kernel/hostname && echo ESCAPED",
    "set_the_core_pattern": "echo '|/bin/sh' > /proc/sys/kernel/core_pattern && echo ESCAPED",
    "system_request": "echo h > /proc/sysrq-trigger && echo ESCAPED",
    "write_to_sysfs": "echo x > /sys/kernel/mm/ksm/run && echo ESCAPED",
    "join_another_cgroup": "echo $$ > /sys/fs/cgroup/cgroup.procs && echo ESCAPED",
    "open_a_disk": "head -c 1 /dev/[svx]d* /dev/nvme* && echo ESCAPED",
    "open_memory_and_the_log": "head -c 1 /dev/mem /dev/kmem /dev/kmsg && echo ESCAPED",
    "create_a_device": "mknod dev b 8 0 && echo ESCAPED",
    "become_root": "su -c 'echo ESCAPED' < /dev/null; sudo -n echo ESCAPED",
    "set_user_id_program": "cp /bin/sh s; chmod u+s s; ./s -p -c 'test -w / && echo ESCAPED'",
    "host_name": "hostname escaped && echo ESCAPED",
    "raise_a_limit": "ulimit -n 1000000 && echo ESCAPED; ulimit -d unlimited && echo ESCAPED",
    "variables_of_the_server": "env | grep -i holdfast && echo ESCAPED",
    "services_of_the_user": "ls /run/user/* /var/run/docker.sock /run/systemd && echo ESCAPED",
}

ONLY_WITH_MOUNTS: Final[dict[str, str]] = {
    "hook": "echo evil > .git/hooks/pre-commit && echo ESCAPED",
    "hook_by_moving_the_repository": "mv .git .git2 && mkdir -p .git/hooks && echo ESCAPED",
    "hook_by_moving_its_directory": "mv .git/hooks .git/h && mkdir .git/hooks && echo ESCAPED",
    "hook_by_deleting_its_directory": "rm -rf .git/hooks; rmdir .git/hooks && echo ESCAPED",
    "hook_by_a_setting": "echo '[core] hooksPath = /tmp' >> .git/config && echo ESCAPED",
    "setting_by_a_rename": "cp .git/config c; mv c .git/config && echo ESCAPED",
    "masked_file": "cat .env; test -s .env && echo ESCAPED",
    "masked_file_by_a_rename": "mv .env e; cat e; cp .env e2; cat e2; ln .env e3; cat e3",
    "masked_file_that_is_missing": "echo x > late && test -s late && echo ESCAPED",
    "processes_of_the_machine": 'test -d "/proc/$VICTIM" && grep -a sleep /proc/[0-9]*/cmdline',
    "memory_by_files": "mkdir /big && echo ESCAPED; touch /dev/big && echo ESCAPED",
}
"""Attempts that mounts and a process namespace stop, and that the fallback does not promise."""

PRELUDE: Final = """
import ctypes, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
COLUMN = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
OUTSIDE, VICTIM = os.environ["OUTSIDE"], int(os.environ["VICTIM"])
def call(numbers, *arguments):
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return libc.syscall(ctypes.c_long(numbers[COLUMN]), *values)
def escaped(result):
    if result is not None and result >= 0:
        print("ESCAPED", result)
def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        print("refused", error)
    else:
        print("ESCAPED")
"""

PYTHON: Final[dict[str, str]] = {
    "ptrace": "escaped(call((101, 117), 16, VICTIM, 0, 0))",
    "ptrace_of_a_parent": "escaped(call((101, 117), 16, os.getppid(), 0, 0))",
    "read_memory": """
buffer = ctypes.create_string_buffer(8)
vector = struct.pack("PN", ctypes.addressof(buffer), 8)
escaped(call((310, 270), VICTIM, vector, 1, struct.pack("PN", 0x400000, 8), 1, 0))
""",
    "memory_file": "attempt(open, f'/proc/{VICTIM}/mem', 'rb')",
    "descriptor_of_a_process": """
pid = call((434, 434), VICTIM, 0)
escaped(call((438, 438), pid, 0, 0))
""",
    "inherited_descriptors": """
for name in os.listdir("/proc/self/fd"):
    number = int(name)
    try:
        os.fstat(number)
    except OSError:
        continue
    if number > 2:
        print("ESCAPED", os.readlink(f"/proc/self/fd/{number}"))
    try:
        print(os.listdir(os.open("..", os.O_RDONLY, dir_fd=number)), "ESCAPED")
    except OSError:
        pass
""",
    "clone_into_a_namespace": "escaped(call((56, 220), 0x10000000 | 17, 0, 0, 0, 0))",
    "clone3_into_a_namespace": """
escaped(call((435, 435), struct.pack("Q7Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64))
""",
    "new_mount_calls": """
escaped(call((430, 430), b"tmpfs", 0))
escaped(call((428, 428), -100, b"/", 1))
""",
    "handle_of_a_file": """
handle = struct.pack("Ii", 128, 0) + bytes(128)
escaped(call((304, 265), -100, handle, 0))
""",
    "connect_to_a_service": """
with socket.socket() as s:
    s.settimeout(3)
    attempt(s.connect, ("127.0.0.1", int(os.environ["TCP"])))
""",
    "connect_to_metadata": """
with socket.socket() as s:
    s.settimeout(3)
    attempt(s.connect, ("169.254.169.254", 80))
""",
    "connect_by_ipv6": """
with socket.socket(socket.AF_INET6) as s:
    s.settimeout(3)
    attempt(s.connect, ("::ffff:127.0.0.1", int(os.environ["TCP"])))
""",
    "send_a_datagram": """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.sendto(b"x", ("127.0.0.1", int(os.environ["UDP"])))
""",
    "ask_a_name_server": """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    attempt(s.sendto, b"x", ("8.8.8.8", 53))
""",
    "resolve_a_name": "attempt(socket.getaddrinfo, 'example.com', 80)",
    "abstract_socket": """
with socket.socket(socket.AF_UNIX) as s:
    attempt(s.connect, "\\0" + os.environ["ABSTRACT"])
""",
    "socket_with_a_name": """
with socket.socket(socket.AF_UNIX) as s:
    attempt(s.connect, OUTSIDE + "/stream.sock")
""",
    "datagram_of_a_pair": """
one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
attempt(one.sendto, b"x", OUTSIDE + "/datagram.sock")
""",
    "raw_socket": "attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)",
    "packet_socket": "attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW)",
    "socket_to_the_hypervisor": "attempt(socket.socket, socket.AF_VSOCK, socket.SOCK_STREAM)",
    "crypto_socket": "attempt(socket.socket, socket.AF_ALG, socket.SOCK_SEQPACKET)",
    "io_uring": "escaped(call((425, 425), 8, bytes(120)))",
    "key_ring": """
escaped(call((248, 217), b"user", b"escape", b"x", 1, -5))
escaped(call((250, 219), 0, -5, 1))
""",
    "bpf_program": "escaped(call((321, 280), 0, bytes(128), 128))",
    "performance_events": """
escaped(call((298, 241), struct.pack("IIQ", 1, 112, 0) + bytes(96), 0, -1, -1, 0))
""",
    "user_fault": "escaped(call((323, 282), 1))",
    "file_notices": "escaped(call((300, 262), 0, 0))",
    "type_into_a_terminal": """
import fcntl, pty
main, other = pty.openpty()
attempt(fcntl.ioctl, other, 0x5412, b"x")
""",
    "become_user_0": "attempt(os.setuid, 0)",
    "change_groups": "attempt(os.setgroups, [0])",
    "set_the_clock": "escaped(call((227, 112), 0, struct.pack('qq', 1, 0)))",
    "load_a_module": "escaped(call((313, 273), 0, b'', 0))",
    "reboot": "escaped(call((169, 142), 0xfee1dead, 672274793, 0, 0))",
    "swap": "escaped(call((167, 224), b'/tmp/x', 0))",
    "all_capabilities": """
text = open("/proc/self/status").read()
for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
    if int(text.split(name + ":")[1].split()[0], 16):
        print("ESCAPED", name)
if os.getuid() == 0 or os.getgroups() not in ([], [os.getgid()]):
    print("ESCAPED", os.getuid(), os.getgroups())
if "NoNewPrivs:\\t1" not in text or "Seccomp:\\t2" not in text:
    print("ESCAPED", text)
""",
    "terminal_of_the_server": "attempt(os.open, '/dev/tty', os.O_RDWR)",
    "core_file": """
import resource
if resource.getrlimit(resource.RLIMIT_CORE) != (0, 0):
    print("ESCAPED")
attempt(resource.setrlimit, resource.RLIMIT_CORE, (1, 1))
""",
    "attributes_of_a_file_outside": "attempt(os.setxattr, OUTSIDE + '/public', 'user.x', b'x')",
    "truncate_outside": "attempt(os.truncate, OUTSIDE + '/public', 0)",
    "swap_a_link_and_a_directory": """
os.mkdir("race")
os.symlink(OUTSIDE, "lure")
pid = os.fork()
if pid:
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        try:
            with open("race/new", "w") as file:
                file.write("x")
        except OSError:
            pass
    os.kill(pid, signal.SIGKILL)
else:
    while True:
        os.rename("race", "rest"), os.rename("lure", "race")
        os.rename("race", "lure"), os.rename("rest", "race")
""",
}
