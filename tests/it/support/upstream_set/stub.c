/* Runs the target of a symlink that a wheel cannot have, from where this program is. It has no startup
 * code of the host's compiler, which would ask for the newest glibc. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text of the symlink, which is written into a copy of this program. */
static volatile char link_text[] = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";

__attribute__((used)) static void run(long *stack) {
    char here[PATH_MAX], target[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    if (length < 0) _exit(1);
    here[length] = 0;
    *strrchr(here, '/') = 0;
    if (strlen(here) + sizeof link_text + 1 > sizeof target) _exit(1);
    strcpy(target, here);
    strcat(strcat(target, "/"), (const char *)link_text);
    execv(target, (char **)(stack + 1));
    _exit(1);
}

__asm__(".globl _start\n_start:\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call run\n");
