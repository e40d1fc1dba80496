CIFAR10 = CIFAR100 = MNIST = KMNIST = FashionMNIST = ImageFolder = None
