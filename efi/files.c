/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The run's folder \mcspin\<run id>\ on the volume that mcspin was loaded from. Boot processor only,
 * never while a firmware service is running. A volume that is missing, full or read-only costs the
 * files and nothing else.
 */
#include "firmware.h"
#include "../src/platform.h"
#include "../src/report/event.h"
#include "../src/run/run.h"

#define PENDING_BYTES (64 << 10)
#define CONFIG_MAX    (16 << 10)

static EFI_FILE_HANDLE root, folder, log_handle;
static char *pending;
static size_t pending_len;
static int log_error; /* of the log; said once */
static char unfinished[160];

/* ASCII path to UTF-16 with backslashes. */
static void wide(CHAR16 *out, const char *text, size_t max)
{
	size_t n = 0;

	for (; *text && n < max - 1; text++)
		out[n++] = *text == '/' ? L'\\' : (CHAR16)(u8)*text;
	out[n] = 0;
}

static int error_of(EFI_STATUS status)
{
	if (status == EFI_VOLUME_FULL)
		return -ENOSPC;
	if (status == EFI_WRITE_PROTECTED || status == EFI_ACCESS_DENIED || status == EFI_UNSUPPORTED)
		return -EROFS;
	if (status == EFI_NOT_FOUND)
		return -ENOENT;
	return EFI_ERROR(status) ? -EIO : 0;
}

static EFI_FILE_HANDLE open(EFI_FILE_HANDLE from, const char *path, UINT64 mode, UINT64 attributes,
			    EFI_STATUS *status)
{
	EFI_FILE_HANDLE h = NULL;
	CHAR16 name[160];

	wide(name, path, ARRAY_SIZE(name));
	fw_inside = true;
	*status = from->Open(from, &h, name, mode, attributes);
	fw_inside = false;
	return *status == EFI_SUCCESS ? h : NULL;
}

#define READ   EFI_FILE_MODE_READ
#define CREATE (EFI_FILE_MODE_READ | EFI_FILE_MODE_WRITE | EFI_FILE_MODE_CREATE)

static EFI_STATUS write_all(EFI_FILE_HANDLE h, const void *data, size_t len)
{
	UINTN n = len;
	EFI_STATUS status;

	fw_inside = true;
	status = h->Write(h, &n, (void *)data);
	if (status == EFI_SUCCESS && n != len)
		status = EFI_VOLUME_FULL;
	if (status == EFI_SUCCESS)
		status = h->Flush(h);
	fw_inside = false;
	return status;
}

static void close(EFI_FILE_HANDLE h)
{
	fw_inside = true;
	h->Close(h);
	fw_inside = false;
}

static s64 read_all(EFI_FILE_HANDLE h, void *buf, size_t cap)
{
	UINTN n = cap;
	EFI_STATUS status;

	fw_inside = true;
	status = h->Read(h, &n, buf);
	fw_inside = false;
	return status == EFI_SUCCESS ? (s64)n : error_of(status);
}

/* A file that replaces an older one of the same name: shorter contents must not leave its tail. */
static int replace(EFI_FILE_HANDLE in, const char *name, const void *data, size_t len)
{
	EFI_STATUS status;
	EFI_FILE_HANDLE h = open(in, name, CREATE & ~EFI_FILE_MODE_CREATE, 0, &status);

	if (h) {
		fw_inside = true;
		h->Delete(h); /* closes as well */
		fw_inside = false;
	}
	h = open(in, name, CREATE, 0, &status);
	if (!h)
		return error_of(status);
	status = write_all(h, data, len);
	close(h);
	return error_of(status);
}

/* -------------------------------------------------------------------- start */

static void open_volume(void)
{
	EFI_GUID guid = SIMPLE_FILE_SYSTEM_PROTOCOL;
	EFI_FILE_IO_INTERFACE *fs;

	if (!fw_loaded || !fw_loaded->DeviceHandle ||
	    fw_bs->HandleProtocol(fw_loaded->DeviceHandle, &guid, (void **)&fs) != EFI_SUCCESS)
		return;
	if (fs->OpenVolume(fs, &root) != EFI_SUCCESS)
		root = NULL;
}

/* A folder that does not exist yet: id, id-2, id-3 … */
static void make_folder(void)
{
	char id[40], path[80];
	EFI_STATUS status;

	mc_snprintf(id, sizeof(id), "%s", run_id);
	for (unsigned n = 1; n < 100; n++) {
		EFI_FILE_HANDLE there;

		if (n > 1)
			mc_snprintf(run_id, sizeof(run_id), "%s-%u", id, n);
		mc_snprintf(path, sizeof(path), "mcspin/%s", run_id);
		there = open(root, path, READ, 0, &status);
		if (!there)
			break;
		close(there);
	}
	folder = open(root, path, CREATE, EFI_FILE_DIRECTORY, &status);
	if (folder)
		log_handle = open(folder, "mcspin.log", CREATE, 0, &status);
	if (!log_handle)
		log_error = error_of(status);
}

static void read_unfinished(void)
{
	EFI_STATUS status;
	EFI_FILE_HANDLE h = open(root, "mcspin/running", READ, 0, &status);
	s64 n;

	if (!h)
		return;
	n = read_all(h, unfinished, sizeof(unfinished) - 1);
	unfinished[n > 0 ? n : 0] = 0;
	close(h);
}

void files_start(void)
{
	EFI_STATUS status;
	EFI_FILE_HANDLE h;

	pending = platform_alloc(PENDING_BYTES);
	if (!root)
		open_volume();
	if (!root) {
		log_error = -EROFS;
		return;
	}
	h = open(root, "mcspin", CREATE, EFI_FILE_DIRECTORY, &status);
	if (!h) {
		/* iPXE's volume answers "not found" to whoever creates: it cannot be written. */
		log_error = status == EFI_NOT_FOUND ? -EROFS : error_of(status);
		return;
	}
	close(h);
	read_unfinished();
	make_folder();
}

const char *files_unfinished(void)
{
	return *unfinished ? unfinished : NULL;
}

bool files_usable(void)
{
	return log_handle != NULL;
}

/* The folder of the image itself, from its device path's text part. */
static EFI_FILE_HANDLE beside_image(const char *name, EFI_STATUS *status)
{
	char path[200];
	size_t n = 0, slash = 0;

	for (EFI_DEVICE_PATH *p = fw_loaded->FilePath; p && !IsDevicePathEnd(p);
	     p = NextDevicePathNode(p)) {
		const CHAR16 *text = ((FILEPATH_DEVICE_PATH *)p)->PathName;
		size_t max = (DevicePathNodeLength(p) - 4u) / 2;

		if (DevicePathType(p) != MEDIA_DEVICE_PATH || DevicePathSubType(p) != MEDIA_FILEPATH_DP)
			continue;
		for (size_t i = 0; i < max && text[i] && n < 150; i++) {
			path[n++] = (char)text[i];
			if (text[i] == '\\')
				slash = n;
		}
	}
	mc_snprintf(path + slash, sizeof(path) - slash, "%s", name);
	return open(root, path, READ, 0, status);
}

char *files_config(void)
{
	EFI_STATUS status;
	EFI_FILE_HANDLE h;
	char *text;
	s64 n;

	open_volume();
	if (!root)
		return NULL;
	h = beside_image("mcspin.cfg", &status);
	if (!h)
		h = open(root, "mcspin.cfg", READ, 0, &status);
	if (!h)
		return NULL;
	text = platform_alloc(CONFIG_MAX);
	n = text ? read_all(h, text, CONFIG_MAX - 1) : 0;
	close(h);
	return n > 0 ? text : NULL;
}

/* -------------------------------------------------------------------- writing */

void files_log(const char *line, size_t len)
{
	if (!pending || log_error || pending_len + len > PENDING_BYTES)
		return;
	memcpy(pending + pending_len, line, len);
	pending_len += len;
	/* An application processor may be the one that speaks (it cannot call the firmware), and a
	 * timed region may be near: writing waits for files_flush(). */
}

void files_flush(void)
{
	EFI_STATUS status;

	if (!log_handle || !pending_len || log_error)
		return;
	status = write_all(log_handle, pending, pending_len);
	pending_len = 0;
	if (status != EFI_SUCCESS) {
		log_error = error_of(status);
		run_worsen(RESULT_ERROR, "mcspin.log cannot be written any more (error %d): the volume "
			   "is full or gone; the serial stream goes on", -log_error);
	}
}

void files_doing(const char *what)
{
	char text[160];
	int n = mc_snprintf(text, sizeof(text), "%s %s", run_id, what);

	if (folder && !log_error)
		replace(root, "mcspin/running", text, min_of((size_t)n, sizeof(text)));
}

int platform_file_write(const char *name, const void *data, size_t len)
{
	files_flush();
	if (!folder)
		return log_error ? log_error : -EROFS;
	return replace(folder, name, data, len);
}

s64 platform_file_read(const char *path, void *buf, size_t cap)
{
	char full[160];
	EFI_STATUS status = EFI_NOT_FOUND;
	EFI_FILE_HANDLE h = NULL;
	s64 n;

	if (!root)
		return -ENOENT;
	mc_snprintf(full, sizeof(full), "mcspin/%s", path);
	h = open(root, full, READ, 0, &status);
	if (!h)
		h = open(root, path, READ, 0, &status);
	if (!h)
		return error_of(status);
	n = read_all(h, buf, cap);
	close(h);
	return n;
}

void files_end(void)
{
	EFI_STATUS status;
	EFI_FILE_HANDLE h;

	files_flush();
	if (log_handle)
		close(log_handle);
	log_handle = NULL;
	if (folder)
		close(folder);
	folder = NULL;
	if (!root)
		return;
	h = open(root, "mcspin/running", CREATE & ~EFI_FILE_MODE_CREATE, 0, &status);
	if (h) {
		fw_inside = true;
		h->Delete(h);
		fw_inside = false;
	}
	close(root);
	root = NULL;
}
