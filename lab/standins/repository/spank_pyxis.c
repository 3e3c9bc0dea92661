/* Simulates pyxis, a Slurm plugin (spank(8)) with the option --container-image.
 *
 * The real plugin starts the container with enroot, and the task enters its namespaces; this one
 * prepends "enroot start IMAGE" to the task's command.
 */

/* The used parts of slurm/spank.h and string.h, with their documented names and types. */
typedef int (*spank_opt_cb_f)(int val, const char *optarg, int remote);
struct spank_option {
    char *name, *arginfo, *usage;
    int has_arg, val;
    spank_opt_cb_f cb;
};
int spank_prepend_task_argv(void *spank, int argc, const char *argv[]);
char *strdup(const char *text);

const char plugin_name[] = "pyxis";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;

static const char *image;

static int take_image(int val, const char *optarg, int remote)
{
    image = strdup(optarg);
    return image ? 0 : -1;
}

struct spank_option spank_options[] = {
    {"container-image", "PATH", "[pyxis] the image to use for the container filesystem", 1, 0,
     take_image},
    {0, 0, 0, 0, 0, 0},
};

int slurm_spank_task_init(void *spank, int argc, char *argv[])
{
    const char *start[] = {"/usr/bin/enroot", "start", image};

    return image ? spank_prepend_task_argv(spank, 3, start) : 0;
}
