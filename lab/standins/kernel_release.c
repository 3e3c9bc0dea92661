/* Simulates a separate kernel in a container: preloaded into every program (/etc/ld.so.preload),
   it makes uname(2) return RELEASE instead of the host's release. */

struct utsname {
    char sysname[65], nodename[65], release[65], version[65], machine[65], domainname[65];
};

long syscall(long number, ...);

enum { SYS_uname = 63 }; /* x86-64 */

int uname(struct utsname *name)
{
    static const char release[] = RELEASE;
    long status = syscall(SYS_uname, name);

    for (unsigned i = 0; status == 0 && i < sizeof release; i++)
        name->release[i] = release[i];
    return (int)status;
}
