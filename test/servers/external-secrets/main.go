// A small External Secrets Operator for tests: its controllers of ExternalSecrets and stores, and its provider for Vault. The full program takes
// five times as long to build.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	corev1 "k8s.io/api/core/v1"

	esv1 "github.com/external-secrets/external-secrets/apis/externalsecrets/v1"
	esv1alpha1 "github.com/external-secrets/external-secrets/apis/externalsecrets/v1alpha1"
	genv1alpha1 "github.com/external-secrets/external-secrets/apis/generators/v1alpha1"
	"github.com/external-secrets/external-secrets/config/crds/bases"
	ctrlcommon "github.com/external-secrets/external-secrets/pkg/controllers/common"
	"github.com/external-secrets/external-secrets/pkg/controllers/externalsecret"
	"github.com/external-secrets/external-secrets/pkg/controllers/externalsecret/esmetrics"
	ctrlmetrics "github.com/external-secrets/external-secrets/pkg/controllers/metrics"
	"github.com/external-secrets/external-secrets/pkg/controllers/secretstore"
	"github.com/external-secrets/external-secrets/pkg/controllers/secretstore/cssmetrics"
	"github.com/external-secrets/external-secrets/pkg/controllers/secretstore/ssmetrics"

	// Registers the provider.
	_ "github.com/external-secrets/external-secrets/pkg/provider/vault"
)

func main() {
	concurrent := flag.Int("concurrent", 4, "objects of one kind that are reconciled at once")
	crds := flag.Bool("crds", false, "print the CustomResourceDefinitions and exit")
	storeInterval := flag.Duration("store-requeue-interval", 5*time.Minute, "between two validations of a store")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if *crds {
		printCRDs()
		return
	}
	if err := run(*concurrent, *storeInterval); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// printCRDs prints those that the controllers below need.
func printCRDs() {
	for _, name := range []string{"externalsecrets", "secretstores", "clustersecretstores"} {
		content, err := bases.Files.ReadFile("external-secrets.io_" + name + ".yaml")
		utilruntime.Must(err)
		fmt.Printf("---\n%s\n", content)
	}
}

func run(concurrent int, storeInterval time.Duration) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(esv1.AddToScheme(scheme))
	utilruntime.Must(esv1alpha1.AddToScheme(scheme))
	utilruntime.Must(genv1alpha1.AddToScheme(scheme))
	ctrlmetrics.SetUpLabelNames(false)
	esmetrics.SetUpMetrics()
	ssmetrics.SetUpMetrics()
	cssmetrics.SetUpMetrics()

	config := ctrl.GetConfigOrDie()
	config.QPS = 200
	config.Burst = 400
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Client: client.Options{
			Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}},
		},
	})
	if err != nil {
		return err
	}
	options := func() controller.Options {
		return controller.Options{MaxConcurrentReconciles: concurrent, RateLimiter: ctrlcommon.BuildRateLimiter()}
	}
	log := ctrl.Log.WithName("controllers")
	stores := &secretstore.StoreReconciler{
		Client:          manager.GetClient(),
		Log:             log.WithName("SecretStore"),
		Scheme:          scheme,
		ControllerClass: "default",
		RequeueInterval: storeInterval,
	}
	if err := stores.SetupWithManager(manager, options()); err != nil {
		return err
	}
	clusterStores := &secretstore.ClusterStoreReconciler{
		Client:          manager.GetClient(),
		Log:             log.WithName("ClusterSecretStore"),
		Scheme:          scheme,
		ControllerClass: "default",
		RequeueInterval: storeInterval,
	}
	if err := clusterStores.SetupWithManager(manager, options()); err != nil {
		return err
	}
	externalSecrets := &externalsecret.Reconciler{
		Client:                    manager.GetClient(),
		SecretClient:              manager.GetClient(),
		Log:                       log.WithName("ExternalSecret"),
		Scheme:                    scheme,
		RestConfig:                config,
		ControllerClass:           "default",
		RequeueInterval:           time.Hour,
		ClusterSecretStoreEnabled: true,
		EnableFloodGate:           true,
	}
	if err := externalSecrets.SetupWithManager(manager, options()); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
