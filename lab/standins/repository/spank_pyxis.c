/* Stands in for pyxis: --container-image, for a plugin of Slurm (spank(8)).
 *
 * The real one has enroot start the container and lets the task enter its namespaces; this one
 * puts "enroot start IMAGE" before the task's command.
 */

/* What is used of slurm/spank.h and string.h, by their documented names and types. */
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
